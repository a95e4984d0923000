"""What stays or returns to FP32 because it is asked for."""

from __future__ import annotations

import pytest

from quantkit.errors import UserError
from quantkit.fusion.fuse import Fused
from quantkit.ir.graph import Graph, Tensor
from quantkit.mixed_precision.kept_in_fp32 import KEPT, kept_in_fp32
from quantkit.quantization.exclude import excluded_nodes
from quantkit.quantization.plan import QuantizationPlan, float_plan, operator_name
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import DATA, Builder
from tests.quantization.networks import Fuser, concatenated, planned, reason, whole
from tests.quantized import int8_names


def test_everything_can_stay_fp32() -> None:
    b, both = concatenated("relu1", "conv2")
    graph = b.graph(both)
    plan = float_plan(whole(graph).graph)
    assert list(plan.decisions) == [node.name for node in graph.nodes]
    for node in graph.nodes:
        decision = plan.decisions[node.name]
        assert (decision.node, decision.operator, decision.origin) == (node.name, operator_name(node), node.origin)
        assert (decision.precision, decision.reason) == ("fp32", "the network was fused, not quantized")
    assert (plan.tensors, plan.exclude, plan.dtype, plan.pre_add_ranges) == ({}, (), "auto", {})


def test_excluded_nodes_keep_the_first_pattern_that_names_them() -> None:
    b = Fuser()
    second = b.rectified("relu2", b.rectified("relu1"))
    network = whole(b.graph(b.op("Pooling", "pool", second)))
    # A network's own operators are what the user knows.
    original = Builder()
    for name, op in (("relu1_conv", "Convolution"), ("relu2_conv", "Convolution"), ("pool", "Pooling")):
        original.op(op, name, DATA)
    network = Fused(original.graph(Tensor("pool")), network.graph, network.shapes, (), ())
    assert excluded_nodes(network, []) == {}
    assert excluded_nodes(network, ["relu2*", "Convolution", "Pooling"]) == {
        "relu2": "relu2*", "relu1": "Convolution", "pool": "Pooling",
    }  # fmt: skip
    plan = planned(network, "relu1", "Pooling")
    assert reason(plan, "relu1") == "excluded by 'relu1'"
    assert plan.exclude == ("relu1", "Pooling")
    with pytest.raises(
        UserError, match="the exclusion 'Poolin' matches no node or operator type; nearest: Pooling, pool, "
    ):
        excluded_nodes(network, ["Poolin"])
    with pytest.raises(UserError, match=r"nearest: relu2_conv, relu1_conv$"):
        excluded_nodes(network, ["relu3_conv"])
    many = Builder()
    for number in range(6):
        many.relu(f"layer{number}", DATA)
    with pytest.raises(UserError, match=r"nearest: (layer\d, ){3}layer\d$"):
        excluded_nodes(whole(many.graph(Tensor("layer5"))), ["layer"])
    with pytest.raises(UserError, match=r"operator type; `quantkit explain` lists the names$"):
        excluded_nodes(network, ["#"])


def mixed_network() -> tuple[Graph, QuantizationPlan]:
    """Two layers side by side, concatenated, pooled, then a third, whose sum with the pooling stays alone."""
    b, both = concatenated("sin", "relu1", "relu2")
    pooled = b.op("Pooling", "pool", both, kernel=(2, 2))
    last = b.rectified("relu3", pooled)
    graph = b.graph(b.op("elemwise_add", "add", last, pooled))
    return graph, planned(whole(graph))


def test_layers_in_int8() -> None:
    graph, plan = mixed_network()
    assert int8_names(graph, plan) == ("relu1", "relu2", "relu3")
    assert int8_names(graph, kept_in_fp32(QuantizedGraph(graph, plan), ["relu2"]).plan) == ("relu1", "relu3")


@pytest.mark.parametrize(
    ("layers", "along"),
    [([], []), (["relu1"], []), (["relu3"], []), (["relu1", "relu2"], ["both", "pool"]),
     (["relu1", "relu2", "relu3"], ["both", "pool", "add"])],
)  # fmt: skip
def test_what_returns_to_fp32(layers: list[str], along: list[str]) -> None:
    graph, plan = mixed_network()
    mixed = kept_in_fp32(QuantizedGraph(graph, plan), layers).plan
    reasons = {name: decision.reason for name, decision in mixed.decisions.items() if decision.precision == "fp32"}
    assert reasons == {
        **dict.fromkeys(layers, KEPT),
        **dict.fromkeys(along, "all that it reads is FP32"),
        "sin": "sin has no INT8 kernel",
    }
    for name, decision in mixed.decisions.items():
        was = plan.decisions[name]
        assert (decision.node, decision.operator, decision.origin) == (was.node, was.operator, was.origin)
    assert (mixed.tensors, mixed.exclude) == (plan.tensors, plan.exclude)


def test_what_is_no_int8_layer_cannot_return_to_fp32() -> None:
    graph, plan = mixed_network()
    for unknown in ("pool", "sin", "nothing"):
        message = f"^'{unknown}' is not a layer that runs in INT8, so it cannot be returned to FP32$"
        with pytest.raises(UserError, match=message):
            kept_in_fp32(QuantizedGraph(graph, plan), ["relu1", unknown])
