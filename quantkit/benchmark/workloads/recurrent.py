"""Stacks of recurrent layers: MXNet's fused operator with seeded weights."""

from __future__ import annotations

import numpy as np

from quantkit.benchmark.suites.suite import Recurrent
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.recurrent_layer import GATES

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


def recurrent_macs(stack: Recurrent) -> int:
    """Multiply-accumulates of the matrix products for one sequence."""
    return stack.steps * _weights(stack)


def sequences(stack: Recurrent, batch: int) -> np.ndarray:
    """Normally distributed input, float32 of shape (steps, batch, inputs); a smaller batch is part of a larger one."""
    values = np.random.RandomState(1).standard_normal((batch, stack.steps, stack.inputs))
    return np.ascontiguousarray(values.transpose(1, 0, 2), np.float32)


def _weights(stack: Recurrent) -> int:
    """The number of weights, without biases."""
    # What each layer reads besides its state.
    widths = [stack.inputs] + [stack.hidden * stack.directions] * (stack.layers - 1)
    return stack.directions * sum(GATES[stack.mode] * stack.hidden * (width + stack.hidden) for width in widths)


def _size(stack: Recurrent) -> int:
    return _weights(stack) + stack.layers * stack.directions * 2 * GATES[stack.mode] * stack.hidden
