"""The suite of ONNX files against MXNet: its rows, and recurrent networks in the form that each engine runs in INT8."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import pytest

from quantkit.diagnosis.parity.outputs import OutputParity
from quantkit.diagnosis.parity.precision import PrecisionParity


def row(network: str, engine: str, same: Optional[int]) -> Any:
    from onnx_parity import Row

    outputs, precision = OutputParity(40, same, 0.9995, 1), PrecisionParity({"LSTM": 2}, (), ())
    return Row(network, "pretrained", 4_000_000, 1_000_000, 0.9991, engine, "1.0", outputs, precision)


@pytest.fixture
def document(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """What the script writes of a classifier and a network with scores of every step."""
    import onnx_parity

    def rows(name: str, engines: Sequence[str]) -> list[onnx_parity.Row]:
        return [row(name, engine, 39 if name == "digits_lstm" else None) for engine in engines]

    monkeypatch.setattr(onnx_parity, "recurrent_rows", rows)
    options = ["--network", "digits_lstm", "--network", "char_lm", "--out", str(tmp_path / "x")]
    monkeypatch.setattr(sys, "argv", ["onnx_parity.py", *options])
    onnx_parity.main()
    written: dict[str, Any] = json.loads((tmp_path / "x.json").read_text())
    return written


def test_scores_of_every_step_have_no_top1(document: dict[str, Any]) -> None:
    from onnx_parity import page

    lines = [line for line in page(document).splitlines() if line.startswith(("| char_lm", "| digits_lstm"))]
    assert [line.split(" | ")[-4:] for line in lines] == [
        ["40", "", "0.99950", "0.99910 |"], ["40", "", "0.99950", "0.99910 |"],
        ["40", "97.50", "0.99950", "0.99910 |"], ["40", "97.50", "0.99950", "0.99910 |"],
    ]  # fmt: skip


def test_the_block_of_the_documents_has_them_too(document: dict[str, Any]) -> None:
    from page_tables import filled

    block = "<!-- generated: parity -->\n<!-- end -->"
    lines = filled(block, Path(), lambda name: document if name == "onnx-parity" else {}).splitlines()
    assert lines[-3:-1] == ["| char_lm | 0.99950 | 0.99950 |", "| digits_lstm | 97.50, 0.99950 | 97.50, 0.99950 |"]


@pytest.mark.requires("onednn", "onnx", "onnxruntime", "openvino")
def test_each_engine_runs_its_form_of_lstm_layers_in_int8() -> None:
    from onnx_parity import recurrent_rows

    found = {each.engine: each for each in recurrent_rows("digits_lstm", ("onnxruntime", "openvino"))}
    for each in found.values():
        assert each.weights == "pretrained" and each.precision.left == each.precision.planned == ()
        assert each.outputs.images == 360 and each.outputs.same >= 355 and each.outputs.cosine > 0.999
    kernels = {engine: " ".join(each.precision.kernels) for engine, each in found.items()}
    assert "DynamicQuantizeLSTM" in kernels["onnxruntime"] and "RNNSeq" in kernels["openvino"]
    assert found["onnxruntime"].int8_size != found["openvino"].int8_size
