"""The integers that a network would make of its input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.lowering.input_integers import input_integers
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
        form = input_integers(graph, "data")
        assert form is not None
        # Beyond the range, and where two integers are as near.
        ties = (np.arange(-300, 300) + np.float32(0.5)) / np.float32(form.factor)
        values = np.concatenate([random.uniform(-1.2 * peak, 1.2 * peak, 8592), ties, [0] * 24]).astype(np.float32)
        data = values.reshape(4, 4, 24, 24)
        (found,) = run(graph, {"data": data})
        np.testing.assert_array_equal(form.of(data), found)
        assert form.of(data).dtype == dtype
        # It hands on what it is given.
        np.testing.assert_array_equal(run(graph, {"data": form.of(data)})[0], found)


@pytest.mark.usefixtures("int8_engine")
def test_a_network_computes_the_same_from_them() -> None:
    data = images()
    _, _, graph = quantized(residual_v1(), data)
    form = input_integers(graph, "data")
    assert form is not None and form.dtype == "int8"
    for expected, found in zip(run(graph, {"data": data}), run(graph, {"data": form.of(data)})):
        np.testing.assert_array_equal(found, expected)


def test_there_are_none_where_something_else_reads_the_values() -> None:
    graph = quantizing("int8", -1.0, 1.0)
    (reader,) = graph.nodes
    assert input_integers(graph, "data") is not None
    assert input_integers(graph, "other") is None
    assert input_integers(replace(graph, outputs=(*graph.outputs, DATA)), "data") is None
    for node in (
        Node("relu", "relu", (DATA,)),
        Node("coarser", reader.op, (DATA,), {**reader.attrs, "max_calib_range": "2.0"}),
        Node("unsigned", reader.op, (DATA,), {**reader.attrs, "out_type": "uint8"}),
    ):
        assert input_integers(replace(graph, nodes=(reader, node)), "data") is None
    assert input_integers(replace(graph, nodes=(reader, replace(reader, name="again"))), "data") is not None


@pytest.mark.parametrize("change", [{"out_type": "auto"}, {"max_calib_range": None}, {"min_calib_range": None}])
def test_there_are_none_of_ranges_that_the_network_measures(change: dict[str, str]) -> None:
    (reader,) = quantizing("int8", -1.0, 1.0).nodes
    attrs = {name: value for name, value in {**reader.attrs, **change}.items() if value is not None}
    graph = Graph((replace(reader, attrs=attrs),), ("data",), (Tensor("q"),), {})
    assert input_integers(graph, "data") is None


def test_an_empty_range_has_none() -> None:
    assert input_integers(quantizing("int8", 0.0, 0.0), "data") is None


def test_an_fp32_network_has_none() -> None:
    b = Builder()
    assert input_integers(b.graph(b.conv("conv", DATA, 3, 8)), "data") is None
