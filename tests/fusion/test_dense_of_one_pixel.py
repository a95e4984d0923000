"""Dense layers that read feature maps of one pixel, as the last convolution of a LeNet-5 puts out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from quantkit.backends.mxnet.stream import outputs_of
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import fuse
from quantkit.fusion.rules.dense_of_one_pixel import DENSE_OF_ONE_PIXEL
from quantkit.ir.graph import Graph, Tensor
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import DATA, Builder, images
from tests.quantization.algorithms.networks import planned

SHAPE = (3, 16, 16)


def one_pixel(b: Builder, name: str) -> Tensor:
    """A convolution as large as its input, with ReLU."""
    weight = b.param(f"{name}_weight", b.random.normal(size=(16, 3, 16, 16)) / 28)
    return b.relu(f"{name}_relu", b.op("Convolution", name, DATA, weight, kernel=(16, 16), num_filter=16, no_bias=True))


def network(last: Callable[[Builder], Tensor]) -> Graph:
    b = Builder()
    return b.graph(b.dense("dense", last(b), 16, 10))


def sum_of_two(b: Builder) -> Tensor:
    return b.op("elemwise_add", "sum", one_pixel(b, "left"), one_pixel(b, "right"))


def pointwise(b: Builder) -> Tensor:
    return b.conv("pointwise", one_pixel(b, "conv"), 16, 16, kernel=1)


@pytest.mark.requires("onednn")
@pytest.mark.parametrize("last", [lambda b: one_pixel(b, "conv"), sum_of_two, pointwise], ids=["conv", "sum", "1x1"])
def test_they_compute_the_same_run_after_run(last: Callable[[Builder], Tensor]) -> None:
    graph, data = network(last), images(4)
    fused, plan = planned(graph, data)
    assert DENSE_OF_ONE_PIXEL.name in {each.rule for each in fused.applied}
    assert all(plan.is_int8(node) for node in fused.graph.nodes if node.op != "Reshape")
    (expected,) = next(iter(outputs_of(graph, [data], len(data))))
    for form, tolerance in ((float_graph(fused.graph), 1e-5), (int8_graph(QuantizedGraph(fused.graph, plan)), 0.1)):
        for (computed,) in outputs_of(form, [data] * 3, len(data)):
            np.testing.assert_allclose(computed, expected, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize(
    "last",
    [
        lambda b: b.op("Pooling", "pool", one_pixel(b, "conv"), pool_type="avg", global_pool=True, kernel=(1, 1)),
        lambda b: b.op("Flatten", "flatten", one_pixel(b, "conv")),
    ],
    ids=["pooling", "flatten"],
)
def test_what_is_in_rows_stays_as_it_is(engine: None, last: Callable[[Builder], Tensor]) -> None:
    assert not fuse(network(last), SHAPE, (DENSE_OF_ONE_PIXEL,)).applied


def test_larger_maps_stay_as_they_are(engine: None) -> None:
    b = Builder()
    graph = b.graph(b.dense("dense", b.conv("conv", DATA, 3, 8), 8 * 256, 10))
    assert not fuse(graph, SHAPE, (DENSE_OF_ONE_PIXEL,)).applied
