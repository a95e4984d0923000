"""Stacks of recurrent layers: MXNet's fused operator with seeded weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from quantkit.benchmark.suites.suite import Recurrent
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.recurrent_layer import GATES, swapped
from quantkit.models.model import Model, Source

INPUT = "data"

_PARAMETERS = "rnn_parameters"


def recurrent_graph(stack: Recurrent, seed: int = 0) -> Graph:
    """The layers, reading (steps, batch, inputs) and putting out (steps, batch, directions x hidden), from zero states.

    Weights and biases are uniform between -1/sqrt(hidden) and its opposite, in MXNet's order: for each layer and
    direction those of the input and those of the state, then for each of them both biases; rows by gate (of an LSTM:
    in, forget, cell, out; of a GRU: reset, update, new).
    """
    bound = 1 / np.sqrt(stack.hidden)
    # RandomState gives the same numbers in every NumPy.
    values = np.random.RandomState(seed).uniform(-bound, bound, _size(stack)).astype(np.float32)
    # The batch size, left open as 0, follows from the input.
    state = {"shape": str((stack.layers * stack.directions, 0, stack.hidden)), "dtype": "float32"}
    states = ("rnn_state", "rnn_cell") if stack.mode == "lstm" else ("rnn_state",)
    layers = Node(
        name="rnn",
        op="RNN",
        inputs=(Tensor(INPUT), Tensor(_PARAMETERS), *map(Tensor, states)),
        attrs={
            "mode": stack.mode,
            "num_layers": str(stack.layers),
            "state_size": str(stack.hidden),
            "bidirectional": str(stack.bidirectional),
        },
    )
    nodes = (*(Node(name, "_zeros", (), state) for name in states), layers)
    return Graph(nodes, (INPUT,), (layers.output,), {_PARAMETERS: values})


def recurrent_model(name: str, stack: Recurrent) -> Model:
    """The layers as a network that reads (batch, steps, inputs), with random weights."""
    graph = recurrent_graph(stack)
    (output,) = graph.outputs
    before, after = swapped("rnn_steps_first", Tensor(INPUT)), swapped("rnn_batch_first", output)
    nodes = (
        replace(node, inputs=(before.output, *node.inputs[1:])) if node.name == output.node else node
        for node in graph.nodes
    )
    whole = Graph((before, *nodes, after), graph.inputs, (after.output,), graph.params)
    return Model(name, whole, (stack.steps, stack.inputs), None, Source(name, "random"))


def sequences(stack: Recurrent, batch: int) -> np.ndarray:
    """Normally distributed input, float32 of shape (batch, steps, inputs); a smaller batch is part of a larger one."""
    return np.random.RandomState(1).standard_normal((batch, stack.steps, stack.inputs)).astype(np.float32)


def _weights(stack: Recurrent) -> int:
    """The number of weights, without biases."""
    # What each layer reads besides its state.
    widths = [stack.inputs] + [stack.hidden * stack.directions] * (stack.layers - 1)
    return stack.directions * sum(GATES[stack.mode] * stack.hidden * (width + stack.hidden) for width in widths)


def _size(stack: Recurrent) -> int:
    return _weights(stack) + stack.layers * stack.directions * 2 * GATES[stack.mode] * stack.hidden
