"""The summary of a network that was written as an ONNX file."""

from __future__ import annotations

from pathlib import Path

import pytest

from quantkit.bundle.summary import export_summary
from quantkit.quantization.plan import Decision, Precision, QuantizationPlan

INT8: Precision = "int8"
FP32: Precision = "fp32"


def plan(*operators: tuple[str, Precision]) -> QuantizationPlan:
    """Of operators and their precisions."""
    decided = [Decision(f"n{number}", name, (), each, "why") for number, (name, each) in enumerate(operators)]
    return QuantizationPlan({each.node: each for each in decided}, {})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(bytes(17))
    return path


def test_operators_are_counted_and_layers_left_in_fp32_named(file: Path) -> None:
    decided = plan(
        ("Pooling", INT8), ("Convolution+relu", INT8), ("Convolution", FP32), ("softmax", FP32),
        ("Convolution+relu", INT8), ("FullyConnected", FP32),
    )  # fmt: skip
    assert export_summary(file, INT8, 17, "auto", decided) == {
        "file": str(file), "precision": INT8, "opset": 17, "reduce_range": "auto", "lstm": None, "size": 17,
        "int8": {"Convolution+relu": 2, "Pooling": 1}, "fp32_layers": ["n2", "n5"],
    }  # fmt: skip


def test_the_form_of_lstm_layers_is_told_where_some_run_in_int8(file: Path) -> None:
    decided = plan(("LSTM", INT8), ("LSTM", FP32), ("RNN+tanh", FP32))
    summary = export_summary(file, INT8, 13, "none", decided, "dynamic")
    assert (summary["lstm"], summary["fp32_layers"]) == ("dynamic", ["n1", "n2"])
    assert export_summary(file, INT8, 13, "none", plan(("LSTM", FP32)), "dynamic")["lstm"] is None


def test_of_fp32_networks_no_layer_is_missing(file: Path) -> None:
    summary = export_summary(file, FP32, 13, "none", plan(("Convolution", FP32)))
    assert (summary["int8"], summary["fp32_layers"]) == ({}, [])
    assert export_summary(file, FP32, 13, "none", None) == summary
