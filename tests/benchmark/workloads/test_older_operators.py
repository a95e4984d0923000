"""Networks in the operators of MXNet 1.5."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.benchmark.workloads.older_operators import with_older_operators
from quantkit.ir.graph import Graph, Node, Tensor

ANCHORS = np.random.default_rng(0).uniform(0, 1, (1, 7, 4)).astype(np.float32) + np.array([0, 0, 1, 1], np.float32)
OFFSETS = np.random.default_rng(1).normal(0, 2, (3, 7, 4)).astype(np.float32)


def decoder(**attrs: str) -> Graph:
    stds = {f"std{column}": str(0.1 * (column + 1)) for column in range(4)}
    decode = Node("decode", "_contrib_box_decode", (Tensor("data"), Tensor("anchors")), {**stds, **attrs})
    after = Node("after", "_mul_scalar", (decode.output,), {"scalar": "2.0"})
    return Graph((decode, after), ("data",), (after.output, decode.output), {"anchors": ANCHORS})


@pytest.mark.parametrize(
    "attrs",
    [
        {"format": "corner"},
        {"format": "center"},
        {"format": "center", "clip": "0.3"},
        {"format": "corner", "clip": "-1"},
        {},
    ],
)
def test_boxes_are_decoded_by_older_operators(attrs: dict[str, str], engine: None) -> None:
    graph = decoder(**attrs)
    older = with_older_operators(graph)
    assert "_contrib_box_decode" not in {node.op for node in older.nodes}
    for expected, computed in zip(run(graph, {"data": OFFSETS}), run(older, {"data": OFFSETS}), strict=True):
        np.testing.assert_allclose(computed, expected, rtol=1e-5, atol=1e-6)


def test_a_network_without_such_operators_is_itself() -> None:
    node = Node("twice", "_mul_scalar", (Tensor("data"),), {"scalar": "2.0"})
    graph = Graph((node,), ("data",), (node.output,))
    assert with_older_operators(graph) is graph
