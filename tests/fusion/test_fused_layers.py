"""FusedLayer: layers with what is fused into them, put together and taken apart again, against NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from quantkit.fusion.fuse import fuse
from quantkit.ir.fused_layer import (
    FusedLayer,
    extended,
    form_problem,
    fused_layer_of,
    has_constant_weights,
    layer_of,
    unrolled,
)
from quantkit.ir.graph import Graph, Node, Tensor
from tests.networks import DATA, Builder, images, residual_v1, residual_v2
from tests.numpy_engine import run

DENSE, CONVOLUTION = "FullyConnected", "Convolution"


def fused_layer(node: Node) -> FusedLayer:
    found = fused_layer_of(node)
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
    node = extended(fused_layer(core), last)
    assert (node.name, node.origin, node.inputs) == ("act", ("layer", "act"), core.inputs)
    assert node.op == {CONVOLUTION: "fused_convolution", DENSE: "fused_dense"}[op]
    found = fused_layer(node)
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
    summed = extended(fused_layer(graph.nodes[0]), graph.nodes[1], DATA)
    assert (fused_layer(summed).addend, fused_layer(summed).activation_kind, fused_layer(summed).is_non_negative) == (
        DATA,
        None,
        False,
    )
    assert (fused_layer(summed).bias is None) == (not bias)
    assert summed.inputs == (*graph.nodes[0].inputs, DATA)
    node = extended(fused_layer(summed), graph.nodes[2])
    assert node.origin == ("conv", "add", "act")
    assert node.body is not None
    assert node.body.inputs == ("data", "weight", "bias", "addend") if bias else ("data", "weight", "addend")
    # The engine's fused layers know one addition, without parameters.
    assert [(each.op, each.attrs) for each in node.body.nodes[1:2]] == [("elemwise_add", {})]
    assert (fused_layer(node).activation_kind, fused_layer(node).addend) == ("relu6", DATA)
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
    assert fused_layer_of(None) is None
    assert fused_layer_of(Node("tanh", "tanh", (DATA,))) is None


def test_constant_weights_are_both_weight_and_bias() -> None:
    b = Builder()
    node = b.graph(b.conv("conv", DATA, 3, 3)).nodes[0]
    for kept in ((), ("conv_weight",), ("conv_bias",), ("conv_weight", "conv_bias")):
        params = {name: b.params[name] for name in kept}
        others = tuple(name for name in b.params if name not in kept)
        graph = Graph((node,), ("data", *others), (node.output,), params)
        assert has_constant_weights(graph.params, fused_layer(node)) == (len(kept) == 2)
    alone = Graph((Builder().graph(DATA).nodes), ("data",), (DATA,))
    assert not has_constant_weights(alone.params, fused_layer(node))


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


ADDEND = Tensor("addend")


def engine_operator() -> Node:
    """A convolution with a sum and an activation in it."""
    b = Builder()
    graph = b.graph(b.relu("act", b.op("broadcast_add", "add", b.conv("conv", DATA, 3, 3), DATA)))
    return extended(fused_layer(extended(fused_layer(graph.nodes[0]), graph.nodes[1], DATA)), graph.nodes[2])


def with_body(node: Node, **changes: Any) -> Node:
    assert node.body is not None
    return replace(node, body=replace(node.body, **changes))


def test_layers_as_they_are_fused_have_no_fault() -> None:
    b = Builder()
    conv = b.graph(b.conv("conv", DATA, 3, 3, bias=False)).nodes[0]
    assert form_problem(fused_layer(conv)) is None
    assert form_problem(fused_layer(engine_operator())) is None
    assert form_problem(fused_layer(with_body(engine_operator()))) is None


def test_layers_in_other_forms_are_refused() -> None:
    sound = engine_operator()
    assert sound.body is not None
    core, add, act = sound.body.nodes
    bias = sound.body.inputs[2]
    tanh = Node("tanh", "Activation", (act.output,), {"act_type": "tanh"})
    wrong = [
        with_body(sound, nodes=(core, replace(act, inputs=(core.output,)), replace(add, inputs=(act.output, ADDEND)))),
        with_body(sound, nodes=(core, add, act, tanh), outputs=(tanh.output,)),
        with_body(sound, outputs=(add.output,)),
        with_body(sound, nodes=(core, replace(add, inputs=(core.output, Tensor(bias))), act)),
        with_body(sound, nodes=(core, replace(add, inputs=(ADDEND, core.output)), act)),
        with_body(sound, nodes=(core, add, replace(act, inputs=(core.output,)))),
        with_body(sound, nodes=(replace(core, inputs=(core.inputs[1], core.inputs[0], core.inputs[2])), add, act)),
        with_body(sound, inputs=(*sound.body.inputs, "more")),
        replace(sound, inputs=sound.inputs[:-1]),
    ]
    for node in wrong:
        assert "as quantkit fuses them" in (form_problem(fused_layer(node)) or ""), node
    short = replace(core, inputs=core.inputs[:2])
    assert form_problem(fused_layer(short)) == "has 2 inputs and needs 3"
    assert form_problem(fused_layer(with_body(sound, nodes=(short, add, act)))) == "has 2 inputs and needs 3"
    assert (
        form_problem(fused_layer(replace(core, attrs={**core.attrs, "no_bias": "True"}))) == "has 3 inputs and needs 2"
    )


def test_what_is_no_layer_is_not_taken_for_one() -> None:
    with pytest.raises(TypeError, match=r"^act is not a layer$"):
        layer_of(Node("act", "relu", (DATA,)))
    node = engine_operator()
    assert layer_of(node) == fused_layer_of(node)
