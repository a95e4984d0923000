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
    pixels = Cell("net", 16, {"values": [[3.0, 9.0, 2.0], [3.0]], "integers": [[2.0], [2.0]]})
    ticks = {"benchmark": [[0.5], [0.5]], "instances": [[1.0], [1.0]], "instances, pixels": [[2.0], [2.0]]}
    pooled = Cell("net", 8, ticks)
    document = {
        "command": "python x",
        "host": {"cpu": "y"},
        "one_image": [asdict(alone)],
        "pixels": [asdict(pixels)],
        "instances": [asdict(pooled)],
    }
    lines = page(document).splitlines()
    assert "| net | 2 | 200 | 250 | 50 [50, 50] |" in lines
    assert "| net | 16 | 2 | 3.000 | 2.000 | 1.500 [1.500, 1.500] |" in lines
    assert "| net | 8 | 2 | 2000 | 1000 | 0.500 [0.500, 0.500] | 500 | 0.250 [0.250, 0.250] |" in lines


def test_all_sides_take_turns(int8_engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import predicting

    monkeypatch.setattr(predicting, "NETWORKS", ("digits_resnet20_v1",))
    monkeypatch.setattr(predicting, "BATCHES", (4,))
    monkeypatch.setattr(predicting, "PIXEL_BATCHES", (2,))
    monkeypatch.setattr(predicting, "_SECONDS", 0.1)
    options = ["--rounds", "2", "--runs", "3", "--out", str(tmp_path / "r")]
    monkeypatch.setattr(sys, "argv", ["predicting.py", *options])
    predicting.main()
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["command"] == "python benchmarks/predicting.py --rounds 2 --runs 3"
    (alone,), (pixels,), (pooled,) = document["one_image"], document["pixels"], document["instances"]
    assert {form: np.shape(ticks) for form, ticks in alone["ticks"].items()} == {"engine": (2, 3), "predictor": (2, 3)}
    assert {form: np.shape(ticks) for form, ticks in pixels["ticks"].items()} == {
        "values": (2, 10),
        "integers": (2, 10),
    }
    assert {form: np.shape(ticks) for form, ticks in pooled["ticks"].items()} == dict.fromkeys(
        ("benchmark", "instances", "instances, pixels"), (2, 1)
    )
    assert all(0 < one < 1e3 for ticks in pooled["ticks"].values() for (one,) in ticks)
