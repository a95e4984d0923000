"""The suite of networks that are never slower: its rows, and what it asks of each network."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import quantkit
from quantkit.files.files import shipped
from tests.quantized import SPEED


def row(**changes: Any) -> str:
    from never_slower import page

    proof = asdict(replace(SPEED, **changes))
    document = {"command": "python x", "host": {"cpu": "y"}, "rows": [{"network": "net", "proof": proof, "minutes": 2}]}
    return page(document).splitlines()[-1]


def test_a_row_has_the_speed_with_and_without() -> None:
    assert row() == (
        "| net | 1 of 3: conv | 12 of 20 | FP32 fused | 1.00 [0.75, 1.25] | 1.50 [1.25, 1.75] | INT8 is faster | "
        "2.00 | 2.0 |"
    )


def test_what_is_in_fp32_has_returned_every_layer() -> None:
    assert row(faster=False, complete=False, reference="fp32") == (
        "| net | 3 of 3 | 12 of 20 | FP32 unfused | 1.00 [0.75, 1.25] | FP32 fused | "
        "all in FP32, search ended by its budget | 3.00 | 2.0 |"
    )


def test_every_network_asked_for_is_quantized_and_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import never_slower

    asked: list[tuple[str, float, int]] = []

    def outcome(*arguments: Any) -> never_slower.Outcome:
        asked.append(arguments)
        return never_slower.Outcome(arguments[0], SPEED, 2)

    monkeypatch.setattr(never_slower, "alone", outcome)
    options = ["--network", "mobilenet0.25", "--minutes", "3", "--batch", "2", "--out", str(tmp_path / "r")]
    monkeypatch.setattr(sys, "argv", ["never_slower.py", *options])
    never_slower.main()
    assert asked == [("mobilenet0.25", 3.0, 2)]
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["command"] == "python benchmarks/never_slower.py --network mobilenet0.25 --minutes 3 --batch 2"
    assert [each["network"] for each in document["rows"]] == ["mobilenet0.25"]
    line = (tmp_path / "r.md").read_text().splitlines()[-1]
    assert line.startswith("| mobilenet0.25 | 1 of 3: conv | 12 of 20 |")
    assert line in capsys.readouterr().out


@pytest.mark.parametrize("name", ["digits_lstm", "char_lm"])
def test_samples_are_what_the_network_reads(name: str) -> None:
    from never_slower import samples

    from quantkit.models.dataset import dataset

    model = quantkit.load_model(name, weights="random", quiet=True)
    read = next(iter(dataset(model, samples(model)).batches(2)))
    assert read.data.shape == (2, *model.input_shape)


def test_networks_of_images_have_the_built_in_ones() -> None:
    from never_slower import samples

    assert samples(quantkit.load_model("digits_resnet20_v1", weights="random", quiet=True)) is None


@pytest.mark.timing
def test_networks_of_sequences_are_measured_for_real(engine: None, tmp_path: Path) -> None:
    command = [sys.executable, str(shipped("benchmarks") / "never_slower.py"), "--network", "digits_lstm"]
    subprocess.run([*command, "--minutes", "0.01", "--out", str(tmp_path / "r")], check=True)
    (row,) = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert row["network"] == "digits_lstm" and row["proof"]["layers"] == 3
