"""How a network would quantize its input."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.lowering.input_quantizer import input_quantizer
from quantkit.quantization.arithmetic import DType
from tests.lowering.on_engine import quantized
from tests.networks import DATA, Builder, images, residual_v1


def quantizing(dtype: str, low: float, high: float) -> Graph:
    """A network that puts out the integers of its input."""
    attrs = {"out_type": dtype, "min_calib_range": repr(low), "max_calib_range": repr(high)}
    return Graph((Node("q", "_contrib_quantize_v2", (DATA,), attrs),), ("data",), (Tensor("q"),), {})


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_they_are_those_of_the_engine(dtype: DType) -> None:
    random = np.random.default_rng(5)
    for peak in (*random.uniform(0.1, 300, 40), 1.0, 127.5, 255.0):
        graph = quantizing(dtype, 0.0 if dtype == "uint8" else -peak, peak)
        quantizer = input_quantizer(graph, "data")
        assert quantizer is not None
        # Beyond the range, and where two integers are as near.
        ties = (np.arange(-300, 300) + np.float32(0.5)) / np.float32(quantizer.factor)
        values = np.concatenate([random.uniform(-1.2 * peak, 1.2 * peak, 8592), ties, [0] * 24]).astype(np.float32)
        data = values.reshape(4, 4, 24, 24)
        (found,) = run(graph, {"data": data})
        np.testing.assert_array_equal(quantizer.quantize(data), found)
        assert quantizer.quantize(data).dtype == dtype
        # It hands on what it is given.
        np.testing.assert_array_equal(run(graph, {"data": quantizer.quantize(data)})[0], found)


@pytest.mark.usefixtures("int8_engine")
def test_a_network_computes_the_same_from_them() -> None:
    data = images()
    _, _, graph = quantized(residual_v1(), data)
    quantizer = input_quantizer(graph, "data")
    assert quantizer is not None and quantizer.dtype == "int8"
    for expected, found in zip(run(graph, {"data": data}), run(graph, {"data": quantizer.quantize(data)})):
        np.testing.assert_array_equal(found, expected)


def test_there_is_none_where_something_else_reads_the_values() -> None:
    graph = quantizing("int8", -1.0, 1.0)
    (reader,) = graph.nodes
    assert input_quantizer(graph, "data") is not None
    assert input_quantizer(graph, "other") is None
    assert input_quantizer(replace(graph, outputs=(*graph.outputs, DATA)), "data") is None
    for node in (
        Node("relu", "relu", (DATA,)),
        Node("coarser", reader.op, (DATA,), {**reader.attrs, "max_calib_range": "2.0"}),
        Node("unsigned", reader.op, (DATA,), {**reader.attrs, "out_type": "uint8"}),
    ):
        assert input_quantizer(replace(graph, nodes=(reader, node)), "data") is None
    assert input_quantizer(replace(graph, nodes=(reader, replace(reader, name="again"))), "data") is not None


@pytest.mark.parametrize(
    "change",
    [
        {"out_type": "auto"},
        *({"max_calib_range": value} for value in (None, "None", "x", "nan", "inf", "2.0", "0.0", "1e-40")),
        *({"min_calib_range": value} for value in (None, "None", "0.0", "1.0", "-2.0")),
        {"min_calib_range": "-1e-40", "max_calib_range": "1e-40"},
        {"min_calib_range": "0.0", "max_calib_range": "0.0"},
        {"out_type": "uint8"},
    ],
    ids=repr,
)
def test_there_is_none_of_other_ranges_than_quantkit_writes(change: dict[str, Optional[str]]) -> None:
    (reader,) = quantizing("int8", -1.0, 1.0).nodes
    attrs = {name: value for name, value in {**reader.attrs, **change}.items() if value is not None}
    graph = Graph((replace(reader, attrs=attrs),), ("data",), (Tensor("q"),), {})
    assert input_quantizer(graph, "data") is None


def test_an_fp32_network_has_none() -> None:
    b = Builder()
    assert input_quantizer(b.graph(b.conv("conv", DATA, 3, 8)), "data") is None
