"""The flat vector of recurrent layers, by layer and direction."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.benchmark.suites.suite import Recurrent
from quantkit.benchmark.workloads.recurrent import recurrent_graph
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.recurrent_layer import RecurrentLayer, feature_count, lstm_matrices, matrices
from tests import recurrent

STACKS = [
    Recurrent(mode=mode, layers=layers, bidirectional=both, steps=2, inputs=3, hidden=5)
    for mode, layers, both in (("lstm", 1, False), ("lstm", 3, True), ("gru", 2, True), ("rnn_relu", 2, False))
]


def layer_of(stack: Recurrent) -> tuple[RecurrentLayer, np.ndarray]:
    graph = recurrent_graph(stack)
    (flat,) = graph.params.values()
    node = next(node for node in graph.nodes if node.op == "RNN")
    return RecurrentLayer(Node("x", "fused_recurrent", (Tensor("data"), Tensor("flat")), node.attrs)), flat


@pytest.mark.parametrize("stack", STACKS, ids=lambda stack: f"{stack.mode}-{stack.layers}-{stack.directions}")
def test_weights_are_those_of_the_definition(stack: Recurrent) -> None:
    layer, flat = layer_of(stack)
    assert feature_count(layer, flat.size) == stack.inputs
    read = matrices(layer, flat, stack.inputs)
    for ours, wanted in zip(read, recurrent.layers(stack, flat)):
        for own, other in zip(ours, wanted):
            np.testing.assert_array_equal(own.of_input, other.of_input.astype(np.float32))
            np.testing.assert_array_equal(own.of_state, other.of_state.astype(np.float32))
            np.testing.assert_array_equal(own.input_bias, other.input_bias.astype(np.float32))
            np.testing.assert_array_equal(own.state_bias, other.state_bias.astype(np.float32))


def test_one_layer_makes_the_same_vector_again() -> None:
    layer, flat = layer_of(STACKS[0])
    read = lstm_matrices({"flat": flat}, layer)
    assert read is not None
    np.testing.assert_array_equal(read.flat, flat)


@pytest.mark.parametrize("size", [0, 7, 260 + 1, 260 - 20])
def test_vectors_of_other_sizes_fit_no_features(size: int) -> None:
    layer, flat = layer_of(STACKS[0])
    assert flat.size == 20 * (3 + 5) + 40
    assert feature_count(layer, size) != STACKS[0].inputs
    assert lstm_matrices({"flat": np.zeros(flat.size + 1, np.float32)}, layer) is None
