"""Which recurrent layers run in INT8, and why the others do not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Optional

import numpy as np
import pytest

from quantkit.backends.mxnet.instructions import may_rule_out_vnni
from quantkit.benchmark.suites.suite import Recurrent
from quantkit.benchmark.workloads.recurrent import recurrent_graph, recurrent_model
from quantkit.errors import ModelError
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import Fused
from quantkit.host.pair_sums import may_overflow
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.quantized_graph import QuantizedGraph, check_quantized
from quantkit.quantization.simulation.simulator import SideBySide, int8_network
from tests.fusion.test_final_state import network as final_state_network
from tests.fusion.test_final_state import stack
from tests.initial_states import begun_network, expected, states_of
from tests.networks import DATA as INPUT
from tests.networks import Builder
from tests.quantization.recurrent_networks import quantized
from tests.sequences import FEATURES, STACK, STEPS, TOKENS, sequence_network, sequences

DATA = sequences(4, tokens=False)


def lstm_reasons(network: QuantizedGraph) -> list[str]:
    return [each.reason for each in network.plan.decisions.values() if each.operator in ("LSTM", "GRU")]


def test_lstm_and_dense_layers_run_in_int8(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fused, network = quantized(monkeypatch, sequence_network("NTC"), DATA)
    check_quantized(network)
    assert lstm_reasons(network) == ["", ""]
    assert [node.op for node in network.int8_weighted] == ["fused_recurrent", "fused_recurrent", "FullyConnected"]
    assert network.rules_out_vnni
    both = SideBySide(fused.graph, int8_network(network), DATA)
    for _ in both.run():
        pass
    (output,) = fused.graph.outputs
    noise = both.quantized[output] - both.exact[output]
    assert 10 * np.log10((both.exact[output] ** 2).sum() / (noise**2).sum()) > 25


def assert_near_fp32(fused: Fused, network: QuantizedGraph, data: np.ndarray) -> None:
    both = SideBySide(fused.graph, int8_network(network), data)
    for _ in both.run():
        pass
    for output in fused.graph.outputs:
        noise = both.quantized[output] - both.exact[output]
        assert 10 * np.log10((both.exact[output] ** 2).sum() / (noise**2).sum()) > 25


@pytest.mark.parametrize("outputs", [(0, 1), (0, 1, 2)])
def test_layers_whose_final_states_are_read_run_in_int8(
    engine: None, monkeypatch: pytest.MonkeyPatch, outputs: tuple[int, ...]
) -> None:
    data = np.random.default_rng(0).normal(size=(4, 4, 3)).astype(np.float32)
    fused, network = quantized(monkeypatch, final_state_network(stack("lstm", 2, both=True), outputs), data)
    check_quantized(network)
    assert lstm_reasons(network) == [""] * 4
    assert_near_fp32(fused, network, data)


@pytest.mark.parametrize("both", [False, True])
def test_layers_that_begin_at_given_states_run_in_int8(
    engine: None, monkeypatch: pytest.MonkeyPatch, both: bool
) -> None:
    form = Recurrent(layers=2, bidirectional=both, steps=STEPS, inputs=FEATURES, hidden=8)
    # More than are run at once.
    data = sequences(11, tokens=False)
    fused, network = quantized(monkeypatch, begun_network(form, outputs=(0, 1, 2)), data)
    check_quantized(network)
    assert lstm_reasons(network) == [""] * (4 if both else 2)
    assert_near_fp32(fused, network, data)


def test_the_range_of_a_state_holds_the_states_that_a_layer_begins_at(
    engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = Recurrent(layers=1, steps=STEPS, inputs=FEATURES, hidden=8)
    graph = begun_network(form)
    _, network = quantized(monkeypatch, graph, DATA)
    (lstm,) = network.int8_lstms
    results, *_ = expected(graph, form, DATA)
    state, _ = states_of(graph, form, DATA)
    assert np.abs(state).max() > 1.2 * np.abs(results).max()
    assert network.form(lstm.node.output).range.largest == pytest.approx(np.abs(state).max(), rel=1e-6)


def test_states_that_do_not_follow_from_the_input_are_refused(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    _, network = quantized(monkeypatch, sequence_network("NTC"), DATA)
    node = network.int8_weighted[0]
    begun = replace(node, inputs=(*node.inputs, Tensor("begun"), Tensor("begun")))
    nodes = tuple(begun if each is node else each for each in network.graph.nodes)
    params = {**network.graph.params, "begun": np.ones((1, 1, STACK.hidden), np.float32)}
    with pytest.raises(ModelError, match=f"initial states of node '{node.name}' .* do not follow from the network's"):
        check_quantized(replace(network, graph=replace(network.graph, nodes=nodes, params=params)))


@pytest.mark.parametrize(
    ("obstacle", "zero", "reason"),
    [
        ("mxnet has no kernel", [], "mxnet has no kernel"),
        (None, ["data"], "its input is 0 in every sample"),
        (None, ["lstm_fused_0"], "its result is 0 in every sample"),
    ],
)
def test_what_keeps_an_lstm_layer_in_fp32(
    engine: None, monkeypatch: pytest.MonkeyPatch, obstacle: Optional[str], zero: Sequence[str], reason: str
) -> None:
    _, network = quantized(monkeypatch, sequence_network("NTC"), DATA, obstacle, zero)
    assert lstm_reasons(network)[0] == reason


def test_other_recurrent_layers_have_no_int8_kernel(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = recurrent_model("gru", Recurrent(mode="gru", layers=1, steps=STEPS, inputs=FEATURES, hidden=4)).graph
    _, network = quantized(monkeypatch, graph, DATA)
    assert lstm_reasons(network) == ["the engine has an INT8 kernel for LSTM layers only"]


@pytest.mark.parametrize(
    ("mode", "operator", "reason"),
    [
        ("lstm", "LSTM", "its initial states are constants other than zero"),
        ("gru", "GRU", "the engine has an INT8 kernel for LSTM layers only"),
    ],
)
def test_why_a_layer_that_is_not_batch_first_stays_fp32(
    engine: None, monkeypatch: pytest.MonkeyPatch, mode: str, operator: str, reason: str
) -> None:
    graph = sequence_network("NTC", "ones")
    if mode == "gru":
        graph = final_state_network(stack("gru", 2, both=False), (0, 1))
    data = DATA if mode == "lstm" else DATA[:, :4, :3]
    _, network = quantized(monkeypatch, graph, data)
    (decision,) = (each for each in network.plan.decisions.values() if each.operator == operator)
    assert network.graph.by_name[decision.node].op == "RNN"
    assert decision.reason == reason


def mixed_network(axes: int) -> Graph:
    """A convolution along ``axes`` axes, which mixes steps, before an LSTM layer and a dense layer."""
    b = Builder()
    weight = b.param("mixing", b.random.normal(size=(STEPS, STEPS, *[1] * axes)))
    data = INPUT
    if axes == 2:
        data = b.op("expand_dims", "wide", data, axis=3)
    kernel = (1,) * axes
    data = b.op("Convolution", "mixed", data, weight, kernel=kernel, num_filter=STEPS, no_bias=True)
    if axes == 2:
        data = b.op("Reshape", "narrow", data, shape=(0, 0, -1))
    data = b.op("SwapAxis", "swap", data, dim1=0, dim2=1)
    states = [b.op("_zeros", name, shape=(1, 0, 8)) for name in ("state", "cell")]
    flat = b.param("flat", recurrent_graph(replace(STACK, layers=1)).params["rnn_parameters"])
    data = b.op("RNN", "lstm", data, flat, *states, mode="lstm", num_layers=1, state_size=8)
    data = b.op("SwapAxis", "swap_back", data, dim1=0, dim2=1)
    weight = b.param("weight", b.random.normal(size=(3, 8)))
    data = b.op("FullyConnected", "dense", data, weight, num_hidden=3, no_bias=True, flatten=False)
    return Graph(tuple(b.nodes), ("data",), (data,), b.params)


@pytest.mark.parametrize(
    ("axes", "exclude", "reason", "rules_out_vnni"),
    [
        (2, [], "the engine's INT8 LSTM rules out VNNI for the whole process, .* convolutions need it", False),
        # No convolution runs in INT8.
        (2, ["mixed"], "", True),
        (1, [], "", True),
    ],
)
def test_int8_convolutions_keep_lstm_layers_in_fp32(
    engine: None, monkeypatch: pytest.MonkeyPatch, axes: int, exclude: list[str], reason: str, rules_out_vnni: bool
) -> None:
    graph = mixed_network(axes)
    _, network = quantized(monkeypatch, graph, DATA, exclude=exclude)
    (given,) = lstm_reasons(network)
    assert re.fullmatch(reason, given)
    assert network.rules_out_vnni == rules_out_vnni
    (dense,) = (node for node in network.graph.nodes if node.op == "FullyConnected")
    assert network.weight_rounding(dense).kind == ("pairs" if rules_out_vnni else "rows")
    assert bool(network.needing_vnni) != rules_out_vnni
    for form in (graph, network.graph, float_graph(network.graph)):
        assert may_rule_out_vnni(form) == (axes == 1)


def test_weights_have_8_bits_where_nothing_rules_out_vnni(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    _, network = quantized(monkeypatch, mixed_network(2), DATA, "mxnet has no kernel", exclude=["mixed"])
    assert not network.rules_out_vnni
    (integers,) = (value for name, value in int8_graph(network).params.items() if name.endswith("weight_int8"))
    assert (np.abs(integers.astype(int)).max(axis=1) == 127).all()


@pytest.mark.parametrize("fused", [True, False])
def test_dense_layers_beside_fp32_lstm_layers_need_no_vnni(
    engine: None, monkeypatch: pytest.MonkeyPatch, fused: bool
) -> None:
    graph = sequence_network("NTC", "open" if fused else "ones")
    _, network = quantized(monkeypatch, graph, DATA, obstacle="mxnet has no kernel")
    assert ("fused_recurrent" in {node.op for node in network.graph.nodes}) == fused
    assert may_rule_out_vnni(graph)
    assert may_rule_out_vnni(network.graph)
    assert [node.op for node in network.int8_weighted] == ["FullyConnected"]
    integers = int8_graph(network).params["dense_dense_weight_int8"]
    assert not may_overflow(integers)
    assert np.abs(integers.astype(int)).max() > 64


@pytest.mark.parametrize("fused", [True, False])
def test_dense_layers_after_each_other_beside_lstm_layers_round_their_weights_themselves(
    engine: None, monkeypatch: pytest.MonkeyPatch, fused: bool
) -> None:
    """The kernel that hands on integers rounds weights to 8 bits."""
    graph = sequence_network("NTC", "open" if fused else "ones")
    attrs = {"num_hidden": "3", "no_bias": "True", "flatten": "False"}
    second = Node("second", "FullyConnected", (graph.outputs[0], Tensor("second_weight")), attrs)
    weight = np.random.default_rng(0).normal(size=(3, TOKENS)).astype(np.float32)
    deeper = Graph(
        (*graph.nodes, second),
        graph.inputs,
        (second.output, *graph.outputs[1:]),
        {**graph.params, "second_weight": weight},
    )
    _, network = quantized(monkeypatch, deeper, DATA, obstacle="mxnet has no kernel")
    assert not network.plan.integer_dense
    weights = [value for name, value in int8_graph(network).params.items() if name.endswith("weight_int8")]
    assert [may_overflow(each) for each in weights] == [False, False]


def test_plans_that_lack_a_tensor_or_its_type_are_refused(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    _, network = quantized(monkeypatch, sequence_network("NTC"), DATA)
    plan, (first, *_) = network.plan, network.int8_weighted
    lacking = {tensor: form for tensor, form in plan.tensors.items() if tensor != first.output}
    with pytest.raises(ModelError, match="has no integer form, and node"):
        check_quantized(replace(network, plan=replace(plan, tensors=lacking)))
    unsigned = {**plan.tensors, first.output: TensorQuantization(plan.tensors[first.output].range, "uint8")}
    with pytest.raises(ModelError, match="is uint8, and must be int8"):
        check_quantized(replace(network, plan=replace(plan, tensors=unsigned)))


def test_lstm_layers_whose_parameters_do_not_fit_are_refused(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    _, network = quantized(monkeypatch, sequence_network("NTC"), DATA)
    node = network.int8_weighted[0]
    params = {**network.graph.params, node.inputs[1].node: np.zeros(7, np.float32)}
    with pytest.raises(ModelError, match="has no INT8 form"):
        check_quantized(replace(network, graph=replace(network.graph, params=params)))
