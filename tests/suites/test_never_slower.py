"""The suite of networks that are never slower: its rows, and what it asks of each network."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import quantkit
from tests.quantized import SPEED


def row(**changes: Any) -> str:
    from never_slower import page

    proof = asdict(replace(SPEED, **changes))
    document = {"command": "python x", "host": {"cpu": "y"}, "rows": [{"network": "net", "proof": proof, "minutes": 2}]}
    return page(document).splitlines()[-1]


def test_a_row_has_the_speed_with_and_without() -> None:
    assert row() == "| net | 1 of 3 | 1.00 [0.75, 1.25] | 1.50 [1.25, 1.75] | INT8 is faster | 2.00 | 2.0 |"


def test_what_is_in_fp32_is_as_fast_as_fp32() -> None:
    expected = "| net | 1 of 3 | 1.00 [0.75, 1.25] | 1 | all in FP32, search ended by its budget | 3.00 | 2.0 |"
    assert row(faster=False, complete=False) == expected


def test_every_network_asked_for_is_quantized_and_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import never_slower

    asked: list[tuple[str, quantkit.QuantizationConfig]] = []

    def quantized(model: str, data: None, config: quantkit.QuantizationConfig) -> SimpleNamespace:
        asked.append((model, config))
        return SimpleNamespace(speed=SPEED)

    stand_in = SimpleNamespace(
        load_model=lambda name, weights, quiet: f"{name} {weights}",
        quantize=quantized,
        QuantizationConfig=quantkit.QuantizationConfig,
    )
    monkeypatch.setattr(never_slower, "quantkit", stand_in)
    options = ["--network", "mobilenet0.25", "--minutes", "3", "--batch", "2", "--out", str(tmp_path / "r")]
    monkeypatch.setattr(sys, "argv", ["never_slower.py", *options])
    never_slower.main()
    ((model, config),) = asked
    assert model == "mobilenet0.25 random"
    assert (config.never_slower, config.search_minutes, config.speed_batch) == (True, 3.0, 2)
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["command"] == "python benchmarks/never_slower.py --network mobilenet0.25 --minutes 3 --batch 2"
    assert [each["network"] for each in document["rows"]] == ["mobilenet0.25"]
    line = (tmp_path / "r.md").read_text().splitlines()[-1]
    assert line.startswith("| mobilenet0.25 | 1 of 3 |")
    assert line in capsys.readouterr().out
