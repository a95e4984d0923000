"""Recurrent layers in a fused network: batch first, LSTM layers one by one, with the results of the definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.benchmark.suites.suite import Recurrent
from quantkit.benchmark.workloads.recurrent import recurrent_graph
from quantkit.benchmark.workloads.recurrent import sequences as steps_first
from quantkit.formats.mxnet import nnvm
from quantkit.fusion.float_symbol import float_graph, fused_graph
from quantkit.fusion.fuse import Fused, fuse
from quantkit.fusion.rewriting.rule import apply_rule
from quantkit.fusion.rules.recurrent import RECURRENT_BATCH_FIRST, RECURRENT_ONE_BY_ONE
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.recurrent_layer import RECURRENT, exchanges_batch, fused_recurrent
from tests import recurrent
from tests.networks import DATA, Builder
from tests.sequences import FEATURES, STACK, STEPS, TOKENS, Layout, expected_scores, sequence_network, sequences

pytestmark = pytest.mark.usefixtures("engine")


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def reasons(fused: Fused) -> list[str]:
    return [rejection.reason for rejection in fused.rejected]


@pytest.mark.parametrize("layout", ["NTC", "NT"])
def test_a_network_of_sequences_is_batch_first(layout: Layout) -> None:
    graph, tokens = sequence_network(layout), layout == "NT"
    fused = fuse(graph, (STEPS,) if tokens else (STEPS, FEATURES))
    assert operators(fused.graph) == ["Embedding"] * tokens + [RECURRENT] * 2 + ["Reshape", "FullyConnected", "Reshape"]
    data = sequences(3, tokens)
    (scores,) = run(float_graph(fused.graph), {"data": data.astype(np.float32)})
    np.testing.assert_allclose(scores, expected_scores(graph, data), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("both", [False, True], ids=["forward", "bidirectional"])
@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_layers_compute_what_their_definition_says(mode: str, both: bool) -> None:
    stack = Recurrent(mode=mode, layers=2, bidirectional=both, steps=4, inputs=3, hidden=5)  # type: ignore[arg-type]
    graph = recurrent_graph(stack)
    data = steps_first(stack, 2)
    fused = fuse(graph, data.shape[1:])
    assert operators(fused.graph).count(RECURRENT) == (2 * (1 + both) if mode == "lstm" else 1)
    (result,) = run(float_graph(fused.graph), {"data": data})
    (flat,) = graph.params.values()
    np.testing.assert_allclose(result, recurrent.outputs(stack, flat, data), rtol=1e-5, atol=1e-5)


def test_the_engines_form_leads_back_to_the_fused_network() -> None:
    fused = fuse(sequence_network("NT"), (STEPS,)).graph
    floats = float_graph(fused)
    again = fused_graph(floats)
    assert [(node.name, node.op, node.inputs) for node in again.nodes] == [
        (node.name, node.op, node.inputs) for node in fused.nodes
    ]
    assert nnvm.serialize(float_graph(again)) == nnvm.serialize(floats)


@pytest.mark.parametrize("layout", ["NTC", "NT"])
def test_transpositions_exchange_axes_as_well(layout: Layout) -> None:
    graph, tokens = sequence_network(layout), layout == "NT"
    nodes = tuple(
        replace(node, op="transpose", attrs={"axes": "(1, 0, 2)"}) if node.op == "SwapAxis" else node
        for node in graph.nodes
    )
    fused = fuse(replace(graph, nodes=nodes), (STEPS,) if tokens else (STEPS, FEATURES))
    assert operators(fused.graph) == operators(fuse(graph, (STEPS,) if tokens else (STEPS, FEATURES)).graph)


@pytest.mark.parametrize(
    ("op", "attrs", "exchanges"),
    [
        ("transpose", {"axes": "(1, 0)"}, True),
        ("transpose", {"axes": "(1, 0, 2, 3)"}, True),
        ("transpose", {"axes": "(1, 0, 3, 2)"}, False),
        ("transpose", {"axes": "(0, 1, 2)"}, False),
        ("transpose", {}, False),
        ("SwapAxis", {"dim1": "1", "dim2": "0"}, True),
        ("SwapAxis", {"dim1": "1", "dim2": "2"}, False),
        ("tanh", {}, False),
    ],
)
def test_what_exchanges_the_batch(op: str, attrs: dict[str, str], exchanges: bool) -> None:
    assert exchanges_batch(Node("node", op, (DATA,), attrs)) == exchanges


def test_a_thousand_layers_are_led_back() -> None:
    first = fused_recurrent("0", Node("rnn", "RNN", (), {"mode": "lstm", "state_size": "1"}), DATA, Tensor("flat"))
    layers = [replace(first, name=str(at), inputs=(Tensor(str(at - 1)), Tensor("flat"))) for at in range(1, 1500)]
    graph = Graph((first, *layers), ("data",), (layers[-1].output,), {"flat": np.zeros(1, np.float32)})
    assert fused_graph(float_graph(graph)).nodes == graph.nodes


def test_axes_are_not_exchanged_between_layers() -> None:
    graph = float_graph(fuse(sequence_network("NTC"), (STEPS, FEATURES)).graph).pruned()
    assert operators(graph).count("SwapAxis") == 2


def changed(graph: Graph, inputs: Sequence[Tensor], **attrs: str) -> Graph:
    """The network with other inputs and attributes of its RNN."""
    nodes = [
        replace(node, inputs=tuple(inputs), attrs={**node.attrs, **attrs}) if node.op == "RNN" else node
        for node in graph.nodes
    ]
    return replace(graph, nodes=tuple(nodes))


def test_constant_states_keep_a_layer_as_it_is() -> None:
    fused = fuse(sequence_network("NTC", "ones"), (STEPS, FEATURES))
    assert RECURRENT not in operators(fused.graph)
    assert "its initial states are constants other than zero" in reasons(fused)


def test_clipped_states_keep_a_layer_as_it_is() -> None:
    graph = recurrent_graph(STACK)
    rnn = next(node for node in graph.nodes if node.op == "RNN")
    clipped = changed(graph, rnn.inputs, lstm_state_clip_min="-1", lstm_state_clip_max="1")
    assert "its states are clipped" in reasons(fuse(clipped, (2, FEATURES)))


def test_computed_weights_keep_a_layer_as_it_is() -> None:
    graph = recurrent_graph(STACK)
    rnn = next(node for node in graph.nodes if node.op == "RNN")
    doubled = Node("doubled", "_mul_scalar", (rnn.inputs[1],), {"scalar": "2"})
    computed = replace(graph, nodes=(doubled, *graph.nodes))
    fused = fuse(changed(computed, (rnn.inputs[0], doubled.output, *rnn.inputs[2:])), (2, FEATURES))
    assert "its weights are computed, not constant" in reasons(fused)


def test_other_exchanges_of_axes_stay() -> None:
    b = Builder()
    first = b.op("SwapAxis", "first", DATA, dim1=0, dim2=1)
    second = b.op("SwapAxis", "second", first, dim1=1, dim2=2)
    fused = fuse(Graph(tuple(b.nodes), ("data",), (second,), b.params), (STEPS, TOKENS))
    assert operators(fused.graph) == ["SwapAxis", "SwapAxis"]


def stack_with(**attrs: str) -> Graph:
    graph = recurrent_graph(STACK)
    return changed(graph, next(node.inputs for node in graph.nodes if node.op == "RNN"), **attrs)


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [
        ({"mode": "lstm_of_the_future"}, "its mode is unknown"),
        ({"use_sequence_length": "True"}, "it has lengths of sequences"),
    ],
)
def test_other_forms_keep_a_layer_as_it_is(attrs: dict[str, str], reason: str) -> None:
    assert rejection(stack_with(**attrs)) == reason


def rejection(graph: Graph) -> str:
    """Why the rule does not fire, without inferring shapes, which would refuse some networks."""
    _, applied, rejected = apply_rule(graph, RECURRENT_BATCH_FIRST, {})
    assert not applied
    return rejected[0].reason


def test_names_that_are_taken_keep_a_layer_as_it_is() -> None:
    graph = recurrent_graph(STACK)
    other = Node("rnn_fused_rnn", "_zeros", (), {"shape": "(1,)"})
    both = replace(graph, nodes=(other, *graph.nodes), outputs=(*graph.outputs, other.output))
    assert rejection(both) == "other operators have the names of its parts"


def test_constant_states_of_zero_are_left_out() -> None:
    graph = recurrent_graph(STACK)
    rnn = next(node for node in graph.nodes if node.op == "RNN")
    zeros = np.zeros((STACK.layers, 2, STACK.hidden), np.float32)
    nodes = (replace(rnn, inputs=(*rnn.inputs[:2], Tensor("zeros"), Tensor("zeros"))),)
    fused = fuse(Graph(nodes, graph.inputs, graph.outputs, {**graph.params, "zeros": zeros}), (2, FEATURES))
    assert operators(fused.graph).count(RECURRENT) == STACK.layers


def test_parameters_that_do_not_fit_keep_layers_together() -> None:
    graph = recurrent_graph(STACK)
    params = {name: value[:-1] for name, value in graph.params.items()}
    whole, _, _ = apply_rule(replace(graph, params=params), RECURRENT_BATCH_FIRST, {})
    _, applied, rejected = apply_rule(whole, RECURRENT_ONE_BY_ONE, {})
    assert not applied
    assert rejected[0].reason == "its parameters do not fit its layers"
