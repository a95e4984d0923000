"""Initial states that a network takes as inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import quantkit
from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.errors import ModelError
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.models.states import state_inputs, with_zero_states
from tests.sequences import STEPS, States, expected_scores, sequence_network, sequences


def load(graph: Graph) -> quantkit.Model:
    return quantkit.load_model(symbol_of(graph), params=graph.params, input_shape=(STEPS,))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("states", ["inputs", "open", "fixed"])
def test_states_begin_at_zero_for_every_batch(states: States) -> None:
    graph = sequence_network("NT", states)
    model = load(graph)
    assert model.graph.inputs == ("data",)
    for count in (1, 3):
        data = sequences(count, tokens=True)
        (scores,) = run(model.graph, {"data": data.astype(np.float32)})
        np.testing.assert_allclose(scores, expected_scores(graph, data), rtol=0, atol=2e-5)
    told = ("the initial states 'state', 'cell' are zero",) if states == "inputs" else ()
    assert model.notes == told


@pytest.mark.usefixtures("engine")
def test_stored_values_of_states_are_refused() -> None:
    graph = sequence_network("NT", "inputs")
    with pytest.raises(ModelError, match="holds values of the initial states 'state', 'cell'"):
        quantkit.load_model(
            symbol_of(graph),
            params={**graph.params, **dict.fromkeys(("state", "cell"), np.ones((2, 1, 8), np.float32))},
            input_shape=(STEPS,),
        )


def test_only_what_layers_begin_with_is_a_state() -> None:
    graph = sequence_network("NT", "inputs")
    assert state_inputs(graph) == ("state", "cell")
    also = Node("also", "mean", (Tensor("cell"),), {})
    assert state_inputs(replace(graph, nodes=(*graph.nodes, also))) == ("state",)


def test_states_of_other_shapes_are_refused() -> None:
    graph = sequence_network("NT", "inputs")
    sound = with_zero_states(graph, {"state": (2, 4, 8), "cell": (2, 0, 8)})
    assert [node.attrs["shape"] for node in sound.nodes if node.op == "_zeros"] == ["(2, 0, 8)"] * 2
    for shape in ((4, 4, 8), (2, 4, 9), (2, 8)):
        with pytest.raises(ModelError, match=r"node 'lstm' \(RNN\) has an initial state 'cell' .* \(2, batch, 8\)"):
            with_zero_states(graph, {"cell": shape})


def test_zeros_of_other_shapes_are_refused() -> None:
    graph = sequence_network("NT", "fixed")
    nodes = tuple(replace(node, attrs={"shape": "(2, 4, 16)"}) if node.name == "cell" else node for node in graph.nodes)
    with pytest.raises(ModelError, match=r"initial state 'cell' of shape \(2, 4, 16\)"):
        with_zero_states(replace(graph, nodes=nodes), {})


def test_networks_without_states_stay_as_they_are() -> None:
    graph = sequence_network("NT")
    assert with_zero_states(graph, {}).nodes == graph.nodes
