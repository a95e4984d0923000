"""Dense layers over the last axis: over the rows of a matrix, where the batch is the first axis or can be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import Fused, fuse
from quantkit.ir.graph import Graph, Node
from tests.networks import DATA, Builder
from tests.sequences import FEATURES, STEPS, sequences

pytestmark = pytest.mark.usefixtures("engine")

ROWS = ["Reshape", "FullyConnected", "Reshape"]


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def reasons(fused: Fused) -> list[str]:
    return [rejection.reason for rejection in fused.rejected]


def dense_after(op: str, **attrs: Any) -> Graph:
    """A dense layer over the last axis of what an operator makes of the data."""
    b = Builder()
    moved = b.op(op, "moved", DATA, **attrs)
    dense = b.op("FullyConnected", "dense", moved, b.param("w", b.random.normal(size=(7, FEATURES))), num_hidden=7,
                 no_bias=True, flatten=False)  # fmt: skip
    return Graph(tuple(b.nodes), ("data",), (dense,), b.params)


def alike(graph: Graph, shape: tuple[int, ...]) -> list[str]:
    """The operators of the fused network, which computes the same for one sample and for three."""
    fused = fuse(graph, shape)
    for count in (1, 3):
        data = np.random.default_rng(4).normal(size=(count, *shape)).astype(np.float32)
        (expected,), (result,) = run(graph, {"data": data}), run(float_graph(fused.graph), {"data": data})
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    return operators(fused.graph)


def test_a_dense_layer_over_the_last_axis_reads_rows() -> None:
    b = Builder()
    dense = b.op("FullyConnected", "dense", DATA, b.param("w", b.random.normal(size=(7, FEATURES))), num_hidden=7,
                 no_bias=True, flatten=False)  # fmt: skip
    graph = Graph(tuple(b.nodes), ("data",), (dense,), b.params)
    fused = fuse(graph, (STEPS, FEATURES))
    assert operators(fused.graph) == ROWS
    data = sequences(3, tokens=False)
    (result,) = run(float_graph(fused.graph), {"data": data})
    assert result.shape == (3, STEPS, 7)
    np.testing.assert_allclose(result, data @ graph.params["w"].T, rtol=1e-5, atol=1e-5)


def test_a_dense_layer_after_an_exchange_of_axes_comes_before_it() -> None:
    graph = dense_after("SwapAxis", dim1=0, dim2=1)
    fused = fuse(graph, (STEPS, FEATURES))
    assert operators(fused.graph) == [*ROWS, "SwapAxis"]
    data = sequences(3, tokens=False)
    (result,) = run(float_graph(fused.graph), {"data": data})
    np.testing.assert_allclose(result, data.swapaxes(0, 1) @ graph.params["w"].T, rtol=1e-5, atol=1e-5)


def test_a_dense_layer_whose_batch_is_not_first_stays() -> None:
    graph = dense_after("SwapAxis", dim1=0, dim2=1)
    exchange, dense = graph.nodes
    between = Node("between", "tanh", (exchange.output,))
    dense = replace(dense, inputs=(between.output, *dense.inputs[1:]))
    fused = fuse(replace(graph, nodes=(exchange, between, dense)), (STEPS, FEATURES))
    assert operators(fused.graph) == ["SwapAxis", "tanh", "FullyConnected"]
    assert reasons(fused) == ["the batch is not the first axis of its input"]


def test_a_dense_layer_over_the_last_axis_of_vectors_is_one_over_all() -> None:
    graph = dense_after("mean", axis=1)
    (fused,) = (node for node in fuse(graph, (STEPS, FEATURES)).graph.nodes if node.op == "FullyConnected")
    assert (fused.name, fused.attrs["flatten"]) == ("dense", "True")
    assert alike(graph, (STEPS, FEATURES)) == ["mean", "FullyConnected"]


@pytest.mark.parametrize(
    ("op", "attrs", "steps", "wanted"),
    [
        # Of one sample, these have an axis of 1 before or behind the batch.
        ("expand_dims", {"axis": 0}, STEPS, ["expand_dims", "FullyConnected"]),
        ("expand_dims", {"axis": 1}, STEPS, ["expand_dims", *ROWS]),
        ("Reshape", {"shape": (1, -1, FEATURES)}, STEPS, ["Reshape", "FullyConnected"]),
        ("SwapAxis", {"dim1": 0, "dim2": 1}, 1, [*ROWS, "SwapAxis"]),
        ("tanh", {}, 1, ["tanh", *ROWS]),
    ],
)
def test_the_batch_is_the_axis_that_grows(op: str, attrs: dict[str, Any], steps: int, wanted: list[str]) -> None:
    assert alike(dense_after(op, **attrs), (steps, FEATURES)) == wanted


def test_steps_and_batch_behind_an_axis_of_one() -> None:
    b = Builder()
    steps_first = b.op("SwapAxis", "swapped", DATA, dim1=0, dim2=1)
    behind = b.op("expand_dims", "behind", steps_first, axis=0)
    dense = b.op("FullyConnected", "dense", behind, b.param("w", b.random.normal(size=(7, FEATURES))), num_hidden=7,
                 no_bias=True, flatten=False)  # fmt: skip
    graph = Graph(tuple(b.nodes), ("data",), (dense,), b.params)
    assert alike(graph, (STEPS, FEATURES)) == ["SwapAxis", "expand_dims", "FullyConnected"]


def test_networks_for_one_sample_alone_stay_as_they_are() -> None:
    b = Builder()
    ones = b.op("_ones", "ones", shape=(1, STEPS, FEATURES))
    total = b.op("elemwise_add", "total", DATA, ones)
    dense = b.op("FullyConnected", "dense", total, b.param("w", b.random.normal(size=(7, FEATURES))), num_hidden=7,
                 no_bias=True, flatten=False)  # fmt: skip
    fused = fuse(Graph(tuple(b.nodes), ("data",), (dense,), b.params), (STEPS, FEATURES))
    assert operators(fused.graph) == ["_ones", "elemwise_add", "FullyConnected"]
    assert reasons(fused) == ["the batch is not the first axis of its input"]


def test_a_dense_layer_with_computed_weights_stays() -> None:
    b = Builder()
    weight = b.op("_mul_scalar", "doubled", b.param("w", b.random.normal(size=(7, FEATURES))), scalar=2)
    dense = b.op("FullyConnected", "dense", DATA, weight, num_hidden=7, no_bias=True, flatten=False)
    fused = fuse(Graph(tuple(b.nodes), ("data",), (dense,), b.params), (STEPS, FEATURES))
    assert reasons(fused) == ["its weights are computed, not constant"]
