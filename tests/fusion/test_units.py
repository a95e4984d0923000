"""Units: layers with what is fused into them, put together and taken apart again, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.fusion.fuse import fuse
from quantkit.fusion.unit import Unit, extended, has_constant_weights, unit_of, unrolled
from quantkit.graph.graph import Graph, Node, Tensor
from tests.networks import DATA, Builder, images, residual_v1, residual_v2
from tests.numpy_engine import run

DENSE, CONVOLUTION = "FullyConnected", "Convolution"


def unit(node: Node) -> Unit:
    found = unit_of(node)
    assert found is not None
    return found


def layer(b: Builder, op: str) -> Tensor:
    return b.conv("layer", DATA, 3, 3) if op == CONVOLUTION else b.dense("layer", DATA, 768, 8)


@pytest.mark.parametrize("op", [CONVOLUTION, DENSE])
@pytest.mark.parametrize("short", [True, False])
def test_an_activation_becomes_part_of_a_layer(op: str, short: bool) -> None:
    b = Builder()
    data = layer(b, op)
    graph = b.graph(b.op("relu", "act", data) if short else b.relu("act", data))
    core, last = graph.nodes
    node = extended(unit(core), last)
    assert (node.name, node.origin, node.inputs) == ("act", ("layer", "act"), core.inputs)
    assert node.op == {CONVOLUTION: "fused_convolution", DENSE: "fused_dense"}[op]
    found = unit(node)
    assert (found.data, found.weight, found.bias, found.addend) == (*core.inputs, None)
    assert (found.activation_kind, found.is_non_negative, found.is_convolution) == ("relu", True, op == CONVOLUTION)
    # The engine's fused layers know no operator relu.
    assert node.body is not None
    assert [(each.name, each.op) for each in node.body.nodes] == [("layer", op), ("act", "Activation")]
    assert node.body.inputs == ("data", "weight", "bias")
    np.testing.assert_array_equal(
        run(Graph((node,), graph.inputs, graph.outputs, graph.params), {"data": images()})[0],
        run(graph, {"data": images()})[0],
    )


@pytest.mark.parametrize("bias", [True, False])
def test_sums_and_activations_are_taken_apart_as_they_were(bias: bool) -> None:
    b = Builder()
    conv = b.conv("conv", DATA, 3, 3, bias=bias)
    total = b.op("broadcast_add", "add", conv, DATA, lost="1")
    graph = b.graph(b.op("clip", "act", total, a_min=0.0, a_max=1.0))
    summed = extended(unit(graph.nodes[0]), graph.nodes[1], DATA)
    assert (unit(summed).addend, unit(summed).activation_kind, unit(summed).is_non_negative) == (DATA, None, False)
    assert (unit(summed).bias is None) == (not bias)
    assert summed.inputs == (*graph.nodes[0].inputs, DATA)
    node = extended(unit(summed), graph.nodes[2])
    assert node.origin == ("conv", "add", "act")
    assert node.body is not None
    assert node.body.inputs == ("data", "weight", "bias", "addend") if bias else ("data", "weight", "addend")
    # The engine's fused layers know one addition, without parameters.
    assert [(each.op, each.attrs) for each in node.body.nodes[1:2]] == [("elemwise_add", {})]
    assert (unit(node).activation_kind, unit(node).addend) == ("relu6", DATA)
    whole = Graph((node,), graph.inputs, (node.output,), graph.params)
    parts = unrolled(node, node.inputs, "last", lambda name: f"free_{name}")
    assert [part.name for part in parts] == ["free_conv", "free_add", "last"]
    apart = Graph(parts, graph.inputs, (Tensor("last"),), graph.params)
    expected = run(graph, {"data": images()})[0]
    for form in (whole, apart):
        np.testing.assert_array_equal(run(form, {"data": images()})[0], expected)


def test_what_stands_alone_takes_new_inputs_and_a_new_name() -> None:
    node = Node("tanh", "tanh", (DATA,), {"a": "1"}, ("tanh", "more"))
    assert unrolled(node, [Tensor("other", 1)], "last", str) == (
        Node("last", "tanh", (Tensor("other", 1),), {"a": "1"}, ("tanh", "more")),
    )


def test_what_is_no_layer_is_no_unit() -> None:
    assert unit_of(None) is None
    assert unit_of(Node("tanh", "tanh", (DATA,))) is None


def test_constant_weights_are_both_weight_and_bias() -> None:
    b = Builder()
    node = b.graph(b.conv("conv", DATA, 3, 3)).nodes[0]
    for kept in ((), ("conv_weight",), ("conv_bias",), ("conv_weight", "conv_bias")):
        params = {name: b.params[name] for name in kept}
        others = tuple(name for name in b.params if name not in kept)
        graph = Graph((node,), ("data", *others), (node.output,), params)
        assert has_constant_weights(graph.params, unit(node)) == (len(kept) == 2)
    alone = Graph((Builder().graph(DATA).nodes), ("data",), (DATA,))
    assert not has_constant_weights(alone.params, unit(node))


@pytest.mark.usefixtures("engine")
def test_new_parameters_are_float32_and_take_free_names() -> None:
    graph = residual_v1()
    taken = Node("bn0_weight", "tanh", (DATA,), {}, ("bn0_weight",))
    more = Graph((taken, *graph.nodes), graph.inputs, (*graph.outputs, taken.output), graph.params)
    fused = fuse(more, (3, 16, 16)).graph
    assert {name for name in fused.params if name.startswith("bn")} == {
        "bn0_weight_1", "bn1_weight", "bn2_weight", *(f"bn{n}_bias" for n in range(3))
    }  # fmt: skip
    for params in (fused.params, fuse(residual_v2(), (3, 16, 16)).graph.params):
        assert {value.dtype for value in params.values()} == {np.dtype(np.float32)}
