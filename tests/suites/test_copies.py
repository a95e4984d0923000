"""The suite of copies: its rows, and that each setting is read in a process of its own."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from quantkit.backends.mxnet.compat import PARALLEL_SIZE
from tests.networks import fire


def test_a_row_has_the_time_with_one_thread_and_what_several_take() -> None:
    from copies import Cell, page

    ticks = {"one thread": [[1.0, 2.0, 9.0], [2.0]], "MXNet's own setting": [[4.0], [1.0, 4.0, 5.0]]}
    document = {"command": "python x", "host": {"cpu": "y"}, "cells": [asdict(Cell("net", "INT8", 8, ticks))]}
    assert page(document).splitlines()[-1] == "| net | INT8 | 8 | 2 | 2.000 | 2.000 [2.000, 2.000] |"


@pytest.mark.long
def test_both_settings_run_apart_in_every_round(
    int8_engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import copies

    monkeypatch.setattr(copies, "NETWORKS", ("digits_resnet20_v1",))
    monkeypatch.setattr(copies, "BATCHES", (2,))
    options = ["--rounds", "2", "--runs", "3", "--out", str(tmp_path / "r")]
    monkeypatch.setattr(sys, "argv", ["copies.py", *options])
    copies.main()
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["command"] == "python benchmarks/copies.py --rounds 2 --runs 3"
    assert [(each["form"], each["batch"]) for each in document["cells"]] == [("fused", 2), ("INT8", 2)]
    for each in document["cells"]:
        assert {setting: np.shape(readings) for setting, readings in each["ticks"].items()} == dict.fromkeys(
            ("MXNet's own setting", "one thread"), (2, 3)
        )


def test_a_process_has_the_setting_that_it_is_given(int8_engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import copies

    seen: list[str] = []
    monkeypatch.setenv(PARALLEL_SIZE, "7")

    def session(*_: object) -> _Idle:
        seen.append(os.environ[PARALLEL_SIZE])
        return _Idle()

    monkeypatch.setattr(copies, "MxnetSession", session)
    assert len(copies.readings_of(fire(), (1, 3, 8, 8), 4, 200_000)) == 4
    assert seen == ["200000"]


class _Idle:
    def run(self, inputs: object) -> None:
        """Take no time."""
