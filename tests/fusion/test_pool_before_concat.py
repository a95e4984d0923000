"""Max pooling changes places with the concatenation before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.calibration.collect import collect_ranges
from quantkit.calibration.table import CalibrationTable
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import RULES, Fused, fuse
from quantkit.fusion.rewriting.rule import Rule
from quantkit.fusion.rules.pool_before_concat import NAME, POOL_BEFORE_CONCAT
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.planning import calibration_targets, make_plan
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import DATA, Builder, fire, images

pytestmark = pytest.mark.usefixtures("engine")

MAX = {"kernel": (3, 3), "stride": (2, 2), "pool_type": "max"}
WITHOUT = tuple(rule for rule in RULES if rule is not POOL_BEFORE_CONCAT)


def pooled(b: Builder, dim: int = 1, **attrs: Any) -> Tensor:
    left, right = b.relu("left_relu", b.conv("left", DATA, 3, 4)), b.conv("right", DATA, 3, 4)
    both = b.op("Concat", "both", left, right, DATA, num_args=3, dim=dim)
    return b.op("Pooling", "pool", both, **{**MAX, **attrs})


def fused_alone(build: Callable[[Builder], Tensor]) -> Fused:
    b = Builder()
    return fuse(b.graph(build(b)), (3, 16, 16), (POOL_BEFORE_CONCAT,))


@pytest.mark.parametrize("attrs", [{}, {"pooling_convention": "full"}, {"global_pool": True}, {"pad": (1, 1)}])
def test_what_is_pooled_is_joined(attrs: dict[str, Any]) -> None:
    fused = fused_alone(lambda b: pooled(b, **attrs))
    # The parts are made where the whole is read, so after all of them.
    *before, whole = fused.graph.nodes
    parts = before[-3:]
    assert (whole.name, whole.op, whole.origin) == ("pool", "Concat", ("both",))
    assert [(part.op, part.origin) for part in parts] == [("Pooling", ("pool",))] * 3
    assert [part.inputs[0] for part in parts] == [Tensor("left_relu"), Tensor("right"), DATA]
    (expected,), (computed,) = (run(graph, {"data": images()}) for graph in (fused.original, fused.graph))
    np.testing.assert_array_equal(computed, expected)


@pytest.mark.parametrize(
    "build",
    [
        lambda b: pooled(b, pool_type="avg"),
        lambda b: pooled(b, pool_type="sum"),
        lambda b: pooled(b, layout="NHWC"),
        # What is not smaller afterwards.
        lambda b: pooled(b, stride=(1, 1)),
        lambda b: b.op("Pooling", "pool", b.op("abs", "both", DATA), **MAX),
    ],
    ids=["mean", "sum", "channels last", "stride 1", "no concatenation"],
)
def test_other_poolings_stay_where_they_are(build: Callable[[Builder], Tensor]) -> None:
    fused = fused_alone(build)
    assert not fused.applied and not fused.rejected


def test_rows_are_pooled_together() -> None:
    def build(b: Builder) -> Tensor:
        both = b.op("Concat", "both", b.conv("left", DATA, 3, 4), b.conv("right", DATA, 3, 4), num_args=2, dim=2)
        return b.op("Pooling", "pool", both, **MAX)

    assert not fused_alone(build).applied


def test_a_parameter_is_not_pooled() -> None:
    def build(b: Builder) -> Tensor:
        both = b.op("Concat", "both", b.conv("left", DATA, 3, 4), b.param("more", np.ones((1, 2, 16, 16))), num_args=2)
        return b.op("Pooling", "pool", both, **MAX)

    assert not fused_alone(build).applied


def test_a_concatenation_that_others_read_stays() -> None:
    b = Builder()
    pool = pooled(b)
    fused = fuse(b.graph(pool, b.op("abs", "absolute", Tensor("both"))), (3, 16, 16), (POOL_BEFORE_CONCAT,))
    assert not fused.applied and not fused.rejected


def test_a_concatenation_that_is_an_output_stays() -> None:
    b = Builder()
    pool = pooled(b)
    assert not fuse(b.graph(pool, Tensor("both")), (3, 16, 16), (POOL_BEFORE_CONCAT,)).applied


def test_two_poolings_change_places_one_after_the_other() -> None:
    b = Builder()
    left, right = b.relu("left_relu", b.conv("left", DATA, 3, 4)), b.relu("right_relu", b.conv("right", DATA, 3, 4))
    both = b.op("Concat", "both", left, right, num_args=2, dim=1)
    first = b.op("Pooling", "first", both, **MAX)
    graph, data = b.graph(b.op("Pooling", "second", first, global_pool=True, pool_type="max")), images(4)
    fused = planned(graph, data)
    assert [applied.node for applied in fused.network.applied if applied.rule == NAME] == ["first", "second"]
    assert all(decision.is_int8 for decision in fused.plan.decisions.values())
    (expected,), (computed,) = (run(each, {"data": data}) for each in (graph, float_graph(fused.network.graph)))
    np.testing.assert_allclose(computed, expected, atol=1e-5 * np.abs(expected).max())


@dataclass(frozen=True)
class Planned:
    """A network fused, and what becomes of it."""

    network: Fused
    plan: QuantizationPlan


def planned(graph: Graph, data: np.ndarray, rules: Sequence[Rule] = RULES) -> Planned:
    fused = fuse(graph, data.shape[1:], rules)
    targets = calibration_targets(fused.graph)
    ranges = collect_ranges(float_graph(fused.graph), targets, [data], len(data), "minmax")
    table = CalibrationTable("minmax", len(data), "random", ranges, "0" * 64, "0" * 64)
    return Planned(fused, make_plan(fused, table))


def int8(graph: Graph, data: np.ndarray, rules: Sequence[Rule]) -> Graph:
    made = planned(graph, data, rules)
    network = QuantizedGraph(made.network.graph, made.plan)
    assert network.is_int8(network.graph.by_name["max"])
    return int8_graph(network)


@pytest.mark.requires("int8")
def test_integers_are_the_same() -> None:
    graph, data = fire(), images(8)
    # Of a larger range than the other.
    params = {**graph.params, "left_weight": 3 * graph.params["left_weight"]}
    outputs = []
    for rules in (WITHOUT, RULES):
        lowered = int8(replace(graph, params=params), data, rules)
        whole = next(node for node in lowered.nodes if node.name == "quantized_max")
        outputs.append(run(replace(lowered, outputs=(whole.output, *lowered.outputs)), {"data": data}))
        concat = next(node for node in lowered.nodes if node.op == "_contrib_quantized_concat")
        assert len(set(map(range_of, producers(lowered, concat)))) == 1
    for before, after in zip(*outputs):
        np.testing.assert_array_equal(after, before)


def producers(graph: Graph, concat: Node) -> list[Node]:
    """The convolutions whose results a concatenation of two joins, pooled or not."""
    nodes = [graph.by_name[tensor.node] for tensor in concat.inputs[:2]]
    return [graph.by_name[node.inputs[0].node] if "pooling" in node.op else node for node in nodes]


def range_of(convolution: Node) -> tuple[str, str]:
    return convolution.attrs["min_calib_range"], convolution.attrs["max_calib_range"]
