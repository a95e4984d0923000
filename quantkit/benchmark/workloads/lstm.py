"""Stacks of LSTM layers: MXNet's fused recurrent operator with seeded weights."""

from __future__ import annotations

import numpy as np

from quantkit.benchmark.suites.suite import Lstm
from quantkit.ir.graph import Graph, Node, Tensor

INPUT = "data"

_PARAMETERS = "lstm_parameters"
_GATES = 4


def lstm_graph(lstm: Lstm, seed: int = 0) -> Graph:
    """The layers, reading (steps, batch, inputs) and putting out (steps, batch, hidden), from states of zero.

    Weights and biases are uniform between -1/sqrt(hidden) and its opposite, in MXNet's order: for each layer those of
    the input and those of the state, then for each layer both biases; rows by gate: in, forget, cell, out.
    """
    bound = 1 / np.sqrt(lstm.hidden)
    # RandomState gives the same numbers in every NumPy.
    values = np.random.RandomState(seed).uniform(-bound, bound, _size(lstm)).astype(np.float32)
    # The batch size, left open as 0, follows from the input.
    state = {"shape": str((lstm.layers, 0, lstm.hidden)), "dtype": "float32"}
    layers = Node(
        name="lstm",
        op="RNN",
        inputs=(Tensor(INPUT), Tensor(_PARAMETERS), Tensor("lstm_state"), Tensor("lstm_cell")),
        attrs={"mode": "lstm", "num_layers": str(lstm.layers), "state_size": str(lstm.hidden)},
    )
    nodes = (Node("lstm_state", "_zeros", (), state), Node("lstm_cell", "_zeros", (), state), layers)
    return Graph(nodes, (INPUT,), (layers.output,), {_PARAMETERS: values})


def lstm_macs(lstm: Lstm) -> int:
    """Multiply-accumulates of the matrix products for one sequence."""
    return lstm.steps * sum(_GATES * lstm.hidden * (width + lstm.hidden) for width in _widths(lstm))


def sequences(lstm: Lstm, batch: int) -> np.ndarray:
    """Normally distributed input, float32 of shape (steps, batch, inputs); a smaller batch is part of a larger one."""
    values = np.random.RandomState(1).standard_normal((batch, lstm.steps, lstm.inputs))
    return np.ascontiguousarray(values.transpose(1, 0, 2), np.float32)


def _widths(lstm: Lstm) -> list[int]:
    """What each layer reads besides its state."""
    return [lstm.inputs] + [lstm.hidden] * (lstm.layers - 1)


def _size(lstm: Lstm) -> int:
    weights = sum(_GATES * lstm.hidden * (width + lstm.hidden) for width in _widths(lstm))
    return weights + lstm.layers * 2 * _GATES * lstm.hidden
