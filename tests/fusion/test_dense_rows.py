"""Dense layers over the last axis that follow each other: nothing between them but their activation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import Fused, fuse
from quantkit.ir.graph import Graph, Tensor
from tests.networks import DATA, Builder, images

pytestmark = pytest.mark.usefixtures("engine")

STEPS, FEATURES = 6, 5


def dense(b: Builder, name: str, data: Tensor, features: int, units: int) -> Tensor:
    weight, bias = b.param(f"{name}_w", b.random.normal(size=(units, features))), b.random.normal(size=units)
    return b.op("FullyConnected", name, data, weight, b.param(f"{name}_b", bias), num_hidden=units, flatten=False)


def fused_alike(build: Callable[[Builder], tuple[Tensor, ...]]) -> Fused:
    """The network fused, held against the original on the engine."""
    b = Builder()
    outputs = build(b)
    graph = Graph(tuple(b.nodes), ("data",), outputs, b.params)
    result = fuse(graph, (STEPS, FEATURES))
    data = np.random.default_rng(2).normal(size=(3, STEPS, FEATURES)).astype(np.float32)
    for expected, computed in zip(run(graph, {"data": data}), run(float_graph(result.graph), {"data": data})):
        np.testing.assert_allclose(computed, expected, atol=1e-5 * np.abs(expected).max())
    return result


def ops(fused: Fused) -> list[str]:
    return [node.op for node in fused.graph.nodes]


@pytest.mark.parametrize("activated", [True, False])
def test_rows_go_from_layer_to_layer(activated: bool) -> None:
    def build(b: Builder) -> tuple[Tensor, ...]:
        data = dense(b, "first", DATA, FEATURES, 8)
        data = b.relu("relu", data) if activated else data
        return (dense(b, "second", data, 8, 4),)

    first, *rest = ops(fused_alike(build))
    assert (first, *rest) == ("Reshape", "fused_dense" if activated else "FullyConnected", "FullyConnected", "Reshape")


def test_the_operators_keep_the_names_of_what_they_stand_for() -> None:
    def build(b: Builder) -> tuple[Tensor, ...]:
        return (dense(b, "second", b.relu("relu", dense(b, "first", DATA, FEATURES, 8)), 8, 4),)

    nodes = fused_alike(build).graph.nodes
    assert [node.origin for node in nodes if node.op == "fused_dense"] == [("first", "relu")]
    assert nodes[-1].name == "second"
    assert [node.origin for node in nodes if node.op == "Reshape"] == [("first",), ("second",)]


def test_a_result_that_others_read_keeps_its_shape() -> None:
    def build(b: Builder) -> tuple[Tensor, ...]:
        first = dense(b, "first", DATA, FEATURES, 8)
        relu = b.relu("relu", first)
        return dense(b, "second", relu, 8, 4), b.op("tanh", "tanh", first)

    named = ops(fused_alike(build))
    assert ("Activation" in named, named.count("Reshape")) == (True, 4)


def test_an_activated_result_that_others_read_too() -> None:
    def build(b: Builder) -> tuple[Tensor, ...]:
        relu = b.relu("relu", dense(b, "first", DATA, FEATURES, 8))
        return dense(b, "second", relu, 8, 4), b.op("tanh", "tanh", relu)

    assert ops(fused_alike(build)).count("Reshape") == 3


def test_rows_of_another_width_are_left() -> None:
    def build(b: Builder) -> tuple[Tensor, ...]:
        first = dense(b, "first", DATA, FEATURES, 8)
        halves = b.op("Reshape", "halves", first, shape=(-1, 4))
        return (b.dense("second", halves, 4, 3),)

    assert "(-1, 4)" in [node.attrs.get("shape") for node in fused_alike(build).graph.nodes]


@pytest.mark.parametrize("units", [8, 3])
def test_layers_of_one_pixel_hand_on_rows(units: int) -> None:
    """As where channels are squeezed and excited; a layer that reads several pixels is no such layer."""
    b = Builder()
    pixel = b.op("Pooling", "pool", DATA, global_pool=True, pool_type="avg", kernel=(1, 1))
    few = b.relu("relu", b.conv("squeeze", pixel, 3, units, kernel=1))
    graph = b.graph(b.op("broadcast_mul", "weighed", DATA, b.conv("excite", few, units, 3, kernel=1)))
    fused, data = fuse(graph, images(2).shape[1:]), images(2)
    found, expected = run(float_graph(fused.graph), {"data": data}), run(graph, {"data": data})
    np.testing.assert_allclose(found[0], expected[0], atol=1e-5 * np.abs(expected[0]).max())
    assert ops(fused) == ["Pooling", "fused_dense", "FullyConnected", "Reshape", "broadcast_mul"]


def test_rows_of_several_steps_are_no_row_of_an_image() -> None:
    def build(b: Builder) -> tuple[Tensor, ...]:
        data = dense(b, "first", DATA, FEATURES, 8)
        weight = b.param("all_w", b.random.normal(size=(4, STEPS * 8)))
        return (b.op("FullyConnected", "all", data, weight, num_hidden=4, no_bias=True),)

    assert ops(fused_alike(build)) == ["Reshape", "FullyConnected", "Reshape", "FullyConnected"]
