"""Inputs of every precision and number of axes that networks have; the expected values by NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from quantkit.backends.mxnet.execute import run
from quantkit.formats.onnx.reading.network import import_network
from tests.formats.onnx.reading.files import Extent, Writer, save
from tests.formats.onnx.reading.hostile import refused

pytestmark = pytest.mark.usefixtures("engine")


def sum_with_columns(shape: tuple[Extent, ...], dtype: type[np.floating], kind: int, path: Path) -> np.ndarray:
    """Write a network that adds 1, 2, 3 and so on to the columns of its input; returns these numbers."""
    columns = np.arange(1, int(shape[-1]) + 1).astype(dtype)
    w = Writer(shape=shape)
    w.kind = kind
    name = w.constant(columns)
    w.constants[name] = columns
    model = w.model(w.op("Add", "x", name))
    model.graph.input[0].type.tensor_type.elem_type = kind
    save(model, path)
    return columns.astype(np.float32)


@pytest.mark.parametrize("shape", [("N", 5), ("N", 4, 5), ("N", 3, 4, 5), ("N", 2, 3, 4, 5)], ids=len)
def test_two_to_five_axes(shape: tuple[Extent, ...], tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    columns = sum_with_columns(shape, np.float32, TensorProto.FLOAT, path)
    images = np.random.default_rng(0).normal(size=(3, *shape[1:])).astype(np.float32)
    imported = import_network(path)
    assert imported.input_shape == shape[1:]
    np.testing.assert_allclose(run(imported.graph, {"x": images})[0], images + columns, rtol=1e-6)


def test_an_input_without_a_shape_needs_one(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    columns = sum_with_columns(("N", 4, 5), np.float32, TensorProto.FLOAT, path)
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(model, path)
    assert "does not fix the shape of its input 'x'; give one" in refused(path)
    images = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    graph = import_network(path, (4, 5)).graph
    np.testing.assert_allclose(run(graph, {"x": images})[0], images + columns, rtol=1e-6)


@pytest.mark.parametrize(("shape", "told"), [((5,), "has 1 axes"), (("N", 1, 2, 3, 4, 5), "has 6 axes")])
def test_other_numbers_of_axes_are_refused(shape: tuple[Extent, ...], told: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    sum_with_columns(shape, np.float32, TensorProto.FLOAT, path)
    assert told in refused(path)


@pytest.mark.parametrize(("dtype", "kind"), [(np.float16, TensorProto.FLOAT16), (np.float64, TensorProto.DOUBLE)])
def test_other_precisions_are_computed_in_float32(dtype: type[np.floating], kind: int, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    columns = sum_with_columns(("N", 3, 4), dtype, kind, path)
    graph = import_network(path).graph
    assert {value.dtype for value in graph.params.values()} == {np.dtype(np.float32)}
    images = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    np.testing.assert_allclose(run(graph, {"x": images})[0], images + columns, rtol=1e-6)


def test_brain_floats_are_computed_in_float32(tmp_path: Path) -> None:
    w = Writer(shape=("N", 3, 4))
    w.kind = TensorProto.BFLOAT16
    model = w.model(w.op("Relu", "x"))
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.BFLOAT16
    graph = import_network(save(model, tmp_path / "net.onnx")).graph
    images = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    np.testing.assert_array_equal(run(graph, {"x": images})[0], np.maximum(images, 0))
