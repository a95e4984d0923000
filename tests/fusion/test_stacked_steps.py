"""Sequences that are split and stacked again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.fusion.fuse import fuse
from quantkit.fusion.rules.stacked_steps import DROP_SPLIT_AND_STACK
from quantkit.ir.graph import Graph, Tensor
from tests.networks import DATA, Builder

pytestmark = pytest.mark.usefixtures("engine")

SHAPE = (3, 3, 5)


def split_and_stacked(places: Sequence[int], before: int, after: int, squeezed: bool = True, count: int = 3) -> Graph:
    b = Builder()
    doubled = b.op("_mul_scalar", "doubled", DATA, scalar=2)
    b.op("SliceChannel", "split", doubled, num_outputs=count, axis=before, squeeze_axis=squeezed)
    steps = [Tensor("split", place) for place in places]
    return b.graph(b.op("stack", "stacked", *steps, axis=after, num_args=len(steps)))


@pytest.mark.parametrize(
    ("places", "before", "after", "operators"),
    [
        ((0, 1, 2), 1, 1, []),
        ((0, 1, 2), -3, 1, []),
        ((2, 1, 0), 1, 1, ["reverse"]),
        ((2, 1, 0), 2, -2, ["reverse"]),
        ((0, 1, 2), 1, 0, ["SwapAxis"]),
        ((2, 1, 0), 1, 0, ["reverse", "SwapAxis"]),
    ],
)
def test_a_sequence_is_read_as_it_is(places: Sequence[int], before: int, after: int, operators: list[str]) -> None:
    assert made_of(split_and_stacked(places, before, after)) == ["_mul_scalar", *operators]


@pytest.mark.parametrize(
    "graph",
    [
        split_and_stacked((0, 2, 1), 1, 1),
        split_and_stacked((0, 1), 1, 1),
        split_and_stacked((0, 1, 1), 1, 1),
        split_and_stacked((0, 1, 2), 1, 2),
        split_and_stacked((0, 1, 2), 1, 1, squeezed=False),
    ],
    ids=["another order", "a step left out", "a step twice", "other axes", "not squeezed"],
)
def test_other_stacks_stay(graph: Graph) -> None:
    assert made_of(graph) == ["_mul_scalar", "SliceChannel", "stack"]


def made_of(graph: Graph) -> list[str]:
    """The operators of the fused network, which computes the same."""
    fused = fuse(graph, SHAPE, (DROP_SPLIT_AND_STACK,)).graph
    data = np.random.default_rng(2).normal(size=(2, *SHAPE)).astype(np.float32)
    (wanted,), (result,) = run(graph, {"data": data}), run(fused, {"data": data})
    np.testing.assert_array_equal(result, wanted)
    return [node.op for node in fused.nodes]
