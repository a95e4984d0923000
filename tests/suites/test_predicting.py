"""The suite of what predictors cost: its rows, and that both sides of each are measured in every round."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest


def test_rows_tell_what_a_predictor_takes_more_and_what_instances_reach() -> None:
    from predicting import Cell, page

    alone = Cell("net", 1, {"engine": [[0.1, 0.2, 0.9], [0.2]], "predictor": [[0.25], [0.2, 0.25, 0.3]]})
    pooled = Cell("net", 8, {"benchmark": [[0.5], [0.5]], "instances": [[1.0], [1.0]]})
    document = {
        "command": "python x",
        "host": {"cpu": "y"},
        "one_image": [asdict(alone)],
        "instances": [asdict(pooled)],
    }
    lines = page(document).splitlines()
    assert "| net | 2 | 200 | 250 | 50 [50, 50] |" in lines
    assert "| net | 8 | 2 | 2000 | 1000 | 0.500 [0.500, 0.500] |" in lines


def test_both_sides_take_turns(int8_engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import predicting

    monkeypatch.setattr(predicting, "NETWORKS", ("digits_resnet20_v1",))
    monkeypatch.setattr(predicting, "BATCHES", (4,))
    monkeypatch.setattr(predicting, "_SECONDS", 0.1)
    options = ["--rounds", "2", "--runs", "3", "--out", str(tmp_path / "r")]
    monkeypatch.setattr(sys, "argv", ["predicting.py", *options])
    predicting.main()
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["command"] == "python benchmarks/predicting.py --rounds 2 --runs 3"
    (alone,), (pooled,) = document["one_image"], document["instances"]
    assert {form: np.shape(ticks) for form, ticks in alone["ticks"].items()} == {"engine": (2, 3), "predictor": (2, 3)}
    assert {form: np.shape(ticks) for form, ticks in pooled["ticks"].items()} == dict.fromkeys(
        ("benchmark", "instances"), (2, 1)
    )
    assert all(0 < one < 1e3 for ticks in pooled["ticks"].values() for (one,) in ticks)
