"""Integers, which the engine has as floating-point numbers: what ONNX computes with them is the same, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from quantkit.backends.mxnet.execute import run
from quantkit.formats.onnx.reading.network import import_network
from tests.formats.onnx.reading.files import Writer, by_onnxruntime, save
from tests.formats.onnx.reading.hostile import refused
from tests.requirements import requires

requires("onnxruntime")
pytestmark = pytest.mark.usefixtures("engine")

Computation = Callable[[Writer, str], str]

ROUNDED: dict[str, Computation] = {
    "quotient": lambda w, data: w.op("Div", data, np.array(3)),
    "quotient of a sum": lambda w, data: w.op("Div", w.op("Add", data, np.array(1)), np.array(3)),
    "quotient of a constant": lambda w, data: w.op("Div", np.array(30), w.op("Max", data, np.array(1))),
    "quotient of a part": lambda w, data: w.op("Div", w.op("Concat", data, data, axis=1), np.array(3)),
    "root": lambda w, data: w.op("Pow", data, 0.5),
    "mean": lambda w, data: w.op("ReduceMean", data, axes=[1]),
    "norm": lambda w, data: w.op("ReduceL2", data, axes=[1]),
    "place, in rows": lambda w, data: w.op("Div", w.op("ArgMax", data, axis=1), np.array(3)),
}

EXACT: dict[str, Computation] = {
    "sum": lambda w, data: w.op("Add", data, np.array(1)),
    "difference from a constant": lambda w, data: w.op("Sub", np.array(20), data),
    "sum of all": lambda w, data: w.op("ReduceSum", data, np.array([1])),
    "chosen by what is computed": lambda w, data: w.op("Gather", w.normal(12, 3), w.op("Add", data, np.array(1))),
    "quotient after a cast": lambda w, data: w.op("Div", w.op("Cast", data, to=TensorProto.FLOAT), 3.0),
}


def model(computation: Computation) -> ModelProto:
    w = Writer(shape=("N", 7))
    made = w.model(w.op("Cast", computation(w, "x"), to=TensorProto.FLOAT))
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    return made


@pytest.mark.parametrize("name", ROUNDED)
def test_what_rounds_integers_is_refused(name: str, tmp_path: Path) -> None:
    assert "it rounds integers" in refused(save(model(ROUNDED[name]), tmp_path / "net.onnx"))


@pytest.mark.parametrize("name", EXACT)
def test_other_arithmetic_is_the_same(name: str, tmp_path: Path) -> None:
    path = save(model(EXACT[name]), tmp_path / "net.onnx")
    tokens = np.random.default_rng(0).integers(0, 11, (3, 7))
    (expected,), (found,) = by_onnxruntime(path, tokens), run(import_network(path).graph, {"x": tokens.astype("f4")})
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_powers_of_constant_integers_are_integers(tmp_path: Path) -> None:
    w = Writer(shape=("N", 4))
    power = w.op("Cast", w.op("Pow", np.array(5), 0.5), to=TensorProto.FLOAT)
    path = save(w.model(w.op("Mul", "x", power)), tmp_path / "net.onnx")
    data = np.arange(8, dtype=np.float32).reshape(2, 4)
    (expected,), (found,) = by_onnxruntime(path, data), run(import_network(path).graph, {"x": data})
    np.testing.assert_array_equal(found, expected)
