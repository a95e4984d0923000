"""Networks loaded with their states as inputs: what they compute piece by piece is what they compute at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import quantkit
from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.benchmark.suites.suite import Recurrent
from quantkit.benchmark.workloads.recurrent import recurrent_model
from quantkit.errors import ModelError
from quantkit.formats.mxnet import nnvm
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import fuse
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.handed_states import from_zero_states, with_state_inputs, zeros_of
from quantkit.models.states_as_inputs import with_states_as_inputs
from quantkit.models.vocabulary import vocabulary_of
from tests import recurrent
from tests.initial_states import begun_network
from tests.networks import DATA, Builder
from tests.sequences import FEATURES, STEPS, TOKENS, States, expected_scores, sequence_network, sequences

pytestmark = pytest.mark.usefixtures("engine")


def load(graph: Graph, layout: str = "NT", shape: Sequence[int] = (STEPS,)) -> quantkit.Model:
    return quantkit.load_model(symbol_of(graph), params=graph.params, input_shape=shape, layout=layout, states="inputs")


def in_pieces(model: quantkit.Model, graph: Graph, data: np.ndarray, steps: int) -> np.ndarray:
    """The first output over all steps, from states that are handed on."""
    deployed = with_state_inputs(graph, model.states)
    results, states = [], dict(zeros_of(model.states, len(data)))
    for start in range(0, data.shape[1], steps):
        outputs = run(deployed, {"data": data[:, start : start + steps].astype(np.float32), **states})
        states = {state.input: outputs[state.output] for state in model.states}
        results.append(outputs[0])
    return np.concatenate(results, axis=1)


@pytest.mark.parametrize("layout", ["NT", "TN"])
@pytest.mark.parametrize("states", ["inputs", "open", "fixed"])
@pytest.mark.parametrize("final_states", [False, True])
def test_pieces_of_a_text_have_the_scores_of_the_whole(layout: str, states: States, final_states: bool) -> None:
    graph = sequence_network("NT" if layout == "NT" else "TN", states, final_states=final_states)
    model = load(graph, layout)
    assert [(state.input, state.shape) for state in model.states] == [("state", (2, 8)), ("cell", (2, 8))]
    assert len(model.graph.outputs) == 3
    assert model.vocabulary is not None and model.vocabulary.size == TOKENS
    # What takes the place of the states does not read the ids themselves.
    assert vocabulary_of(model.graph, model.graph.inputs[0]) == model.vocabulary
    data = sequences(3, tokens=True)
    whole = expected_scores(graph, data)
    np.testing.assert_allclose(in_pieces(model, model.graph, data, 2), whole, rtol=0, atol=2e-5)
    # Sequences begin at zero where no states are given.
    (scores, *_) = run(model.graph, {"data": data.astype(np.float32)})
    np.testing.assert_allclose(scores, whole, rtol=0, atol=2e-5)


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
@pytest.mark.parametrize("layers", [1, 2])
def test_every_layer_hands_its_states_on(mode: str, layers: int) -> None:
    form = Recurrent(mode=mode, layers=layers, steps=STEPS, inputs=FEATURES, hidden=4)  # type: ignore[arg-type]
    model = with_states_as_inputs(recurrent_model("stack", form))
    assert len(model.states) == (2 if mode == "lstm" else 1)
    data = sequences(3, tokens=False)
    (flat,) = model.graph.params.values()
    whole = recurrent.outputs(form, flat, data.swapaxes(0, 1)).swapaxes(0, 1)
    fused = fuse(model.graph, data.shape[1:]).graph
    for graph in (model.graph, float_graph(fused)):
        np.testing.assert_allclose(in_pieces(model, graph, data, 3), whole, rtol=0, atol=2e-5)


def test_fused_layers_read_and_write_states_without_exchanges_of_axes_between_them() -> None:
    fused = fuse(load(sequence_network("NT", "inputs")).graph, (STEPS,)).graph
    assert not [node for node in fused.nodes if node.op in ("SwapAxis", "RNN")]


def test_a_network_with_state_inputs_leads_back_to_the_one_from_zero() -> None:
    model = load(sequence_network("NT", "inputs"))
    for graph in (model.graph, float_graph(fuse(model.graph, (STEPS,)).graph)):
        deployed = with_state_inputs(graph, model.states)
        assert deployed.inputs == ("data", "state", "cell")
        assert not [node for node in deployed.nodes if node.op in ("zeros_like", "broadcast_axis")]
        assert nnvm.serialize(from_zero_states(deployed, 2, model.states)) == nnvm.serialize(graph)
    assert with_state_inputs(deployed, ()) is deployed
    assert from_zero_states(deployed, 2, ()) is deployed


def test_states_that_several_layers_begin_with_become_one_for_each() -> None:
    b = Builder()
    zeros = b.op("_zeros", "begin", shape=(1, 0, 4))
    stream = b.op("SwapAxis", "swap", DATA, dim1=0, dim2=1)
    flat = recurrent_model("one", Recurrent(layers=1, steps=STEPS, inputs=FEATURES, hidden=4)).graph.params
    (values,) = flat.values()
    b.op("RNN", "lstm", stream, b.param("flat", values), zeros, zeros, mode="lstm", num_layers=1, state_size=4)
    model = load(b.graph(b.op("SwapAxis", "back", Tensor("lstm"), dim1=0, dim2=1)), "NTC", (STEPS, FEATURES))
    assert [state.input for state in model.states] == ["lstm_state", "lstm_cell"]


@pytest.mark.requires("onnx")
def test_every_layer_of_an_onnx_file_hands_its_states_on(tmp_path: Path) -> None:
    graph = sequence_network("NT", "inputs")
    quantkit.export_onnx(load(graph), tmp_path / "lm.onnx")
    model = quantkit.load_model(tmp_path / "lm.onnx", states="inputs")
    assert [state.shape for state in model.states] == [(1, 8)] * 4
    data = np.concatenate([sequences(3, tokens=True, seed=seed) for seed in (5, 6)], axis=1)
    np.testing.assert_allclose(
        in_pieces(model, model.graph, data, STEPS), expected_scores(graph, data), rtol=0, atol=2e-5
    )


def test_what_is_an_input_is_told() -> None:
    told = "the initial states 'state', 'cell' are inputs, and zero where a sequence begins"
    assert load(sequence_network("NT", "inputs")).notes == (told,)
    assert load(sequence_network("TN", "open"), "TN").notes[1:] == (told,)
    assert quantkit.load_model("digits_lstm").states == ()


def test_networks_that_read_backward_are_refused() -> None:
    form = Recurrent(layers=1, bidirectional=True, steps=STEPS, inputs=FEATURES, hidden=4)
    with pytest.raises(ModelError, match=r"node 'rnn' \(RNN\) reads sequences backward, .*--states zero"):
        with_states_as_inputs(recurrent_model("both", form))
    turned = Node("turned", "reverse", (DATA,), {"axis": "1"})
    model = recurrent_model("turned", replace(form, bidirectional=False))
    first, *others = model.graph.nodes
    nodes = (turned, replace(first, inputs=(turned.output,)), *others)
    with pytest.raises(ModelError, match=r"node 'turned' \(reverse\) reads sequences backward"):
        with_states_as_inputs(replace(model, graph=replace(model.graph, nodes=nodes)))


def test_states_that_cannot_be_handed_on_are_refused() -> None:
    form = Recurrent(layers=1, steps=STEPS, inputs=FEATURES, hidden=4)
    begun = replace(recurrent_model("begun", form), graph=begun_network(form))
    with pytest.raises(ModelError, match=r"node 'rnn' \(RNN\) begins at the state 'state', .*--states zero"):
        with_states_as_inputs(begun)
    dense = Node("dense", "FullyConnected", (DATA, Tensor("w")), {"num_hidden": "2", "no_bias": "True"})
    graph = Graph((dense,), ("data",), (dense.output,), {"w": np.ones((2, 3), np.float32)})
    with pytest.raises(ModelError, match="has no recurrent layers, so no states to hand on"):
        quantkit.load_model(symbol_of(graph), params=graph.params, input_shape=(3,), states="inputs")
    with pytest.raises(ModelError, match="states is 'one'; choose one of zero, inputs"):
        quantkit.load_model("digits_lstm", states="one")  # type: ignore[arg-type]
