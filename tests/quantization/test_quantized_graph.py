"""What a quantized graph tells of its layers, and which plans do not go with which networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from quantkit.errors import ModelError
from quantkit.ir.graph import Graph, Tensor
from quantkit.quantization.quantized_graph import QuantizedGraph, check_quantized
from tests.lowering.networks import branches
from tests.networks import images, residual_v1
from tests.quantization.algorithms.networks import planned

pytestmark = pytest.mark.usefixtures("engine")


def quantized(*exclude: str, of: Callable[[], Graph] = residual_v1) -> QuantizedGraph:
    fused, plan = planned(of(), images(), *exclude)
    return QuantizedGraph(fused.graph, plan)


def test_int8_layers_are_convolutions_and_dense_layers_in_order() -> None:
    network = quantized("conv1")
    assert [unit.node.name for unit in network.int8_layers] == ["relu0", "relu2", "dense"]
    assert network.int8_layer(network.graph.by_name["relu1"]) is None
    assert network.int8_layer(network.graph.by_name["pool"]) is None
    assert network.int8_layer(None) is None
    assert network.int8_convolution(network.graph.by_name["dense"]) is None
    assert network.int8_convolution(network.graph.by_name["relu0"]) is not None


def test_all_int8_operators_but_dense_layers_put_out_integers() -> None:
    network = quantized("conv1")
    nodes = network.graph.by_name
    found = {name: network.computes_integers(nodes[name]) for name in ("relu0", "relu1", "relu2", "pool", "dense")}
    assert found == {"relu0": True, "relu1": False, "relu2": True, "pool": False, "dense": False}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_signed_result_needs_a_signed_addend(dtype: str) -> None:
    network = quantized()
    (unit,) = (unit for unit in network.int8_layers if unit.addend is not None)
    assert unit.addend is not None
    forms = dict(network.plan.tensors)
    forms[unit.addend] = replace(forms[unit.addend], dtype="uint8")
    forms[unit.node.output] = replace(forms[unit.node.output], dtype=dtype)
    changed = replace(network, plan=replace(network.plan, tensors=forms))
    assert changed.addend_form(unit) == replace(forms[unit.addend], dtype=dtype)
    assert changed.addend_form(network.int8_layers[0]) is None


def test_a_plan_of_another_network_is_refused() -> None:
    network = quantized()
    check_quantized(network)
    decisions = {name: each for name, each in network.plan.decisions.items() if name != "pool"}
    with pytest.raises(ModelError, match="do not agree on whether there is a node 'pool'"):
        check_quantized(replace(network, plan=replace(network.plan, decisions=decisions)))


@pytest.mark.parametrize(
    ("name", "operator"),
    [("relu0", "Convolution+relu\n"), ("relu0", "Convolution+sum"), ("pool", "Pooling\n"), ("pool", "")],
)
def test_a_plan_names_the_operators_of_its_network(name: str, operator: str) -> None:
    network = quantized()
    decisions = {**network.plan.decisions, name: replace(network.plan.decisions[name], operator=operator)}
    with pytest.raises(ModelError, match=rf"node '{name}' \(.*\) is another operator in the plan"):
        check_quantized(replace(network, plan=replace(network.plan, decisions=decisions)))


def test_a_relu_of_recovery_is_no_part_of_the_plan() -> None:
    network = quantized()
    decisions = {**network.plan.decisions, "relu0": replace(network.plan.decisions["relu0"], operator="Convolution")}
    check_quantized(replace(network, plan=replace(network.plan, decisions=decisions)))


@pytest.mark.parametrize("name", ["data", "relu1", "relu2"])
def test_every_tensor_of_an_int8_operator_needs_integers(name: str) -> None:
    network = quantized()
    forms = {tensor: form for tensor, form in network.plan.tensors.items() if tensor != Tensor(name)}
    with pytest.raises(ModelError, match=f"tensor '{name}' has no integer form, and node '.*' runs in INT8"):
        check_quantized(replace(network, plan=replace(network.plan, tensors=forms)))


@pytest.mark.parametrize("op", ["Pooling", "softmax"])
def test_of_operators_without_weights_only_some_have_an_int8_form(op: str) -> None:
    network = quantized(of=branches)
    pool = network.graph.by_name["pool"]
    assert network.computes_integers(pool)
    nodes = tuple(replace(node, op=op) if node is pool else node for node in network.graph.nodes)
    decisions = {**network.plan.decisions, "pool": replace(network.plan.decisions["pool"], operator=op)}
    changed = QuantizedGraph(replace(network.graph, nodes=nodes), replace(network.plan, decisions=decisions))
    if op == "Pooling":
        check_quantized(changed)
    else:
        with pytest.raises(ModelError, match=r"node 'pool' \(softmax\) has no INT8 form"):
            check_quantized(changed)


def test_computed_weights_have_no_int8_form() -> None:
    network = quantized()
    params = {name: value for name, value in network.graph.params.items() if name != "dense_weight"}
    graph = replace(network.graph, inputs=("data", "dense_weight"), params=params)
    with pytest.raises(ModelError, match=r"node 'dense' \(FullyConnected\) has no INT8 form"):
        check_quantized(replace(network, graph=graph))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("bn0_weight", lambda value: value.reshape(-1), r"has weights of shape \(\d+,\) and type float32"),
        ("dense_weight", lambda value: np.float32(1.0).reshape(()), r"has weights of shape \(\) and type float32"),
        ("dense_weight", lambda value: value.astype(np.float64), r"and type float64"),
        (
            "bn0_bias",
            lambda value: value[:, None],
            r"has a bias of shape \(\d+, 1\) and type float32 for 16 channels",
        ),
        ("dense_bias", lambda value: value[:-1], r"has a bias of shape \(9,\) and type float32 for 10 channels"),
        ("dense_bias", lambda value: value.astype(np.float64), r"has a bias of shape \(10,\) and type float64"),
    ],
)
def test_weights_and_biases_go_together(name: str, change: Callable[[np.ndarray], np.ndarray], message: str) -> None:
    network = quantized()
    changed = {**network.graph.params, name: change(network.graph.params[name])}
    with pytest.raises(ModelError, match=message):
        check_quantized(replace(network, graph=replace(network.graph, params=changed)))
