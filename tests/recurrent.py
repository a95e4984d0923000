"""Recurrent layers by their definition, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np

from quantkit.benchmark.suites.suite import Recurrent

Step = Callable[[np.ndarray, np.ndarray, "Weights"], np.ndarray]


@dataclass(frozen=True)
class Weights:
    """Of one layer in one direction: matrices of shape (gates x hidden, width), biases of shape (gates x hidden,)."""

    of_input: np.ndarray
    of_state: np.ndarray
    input_bias: np.ndarray
    state_bias: np.ndarray


def layers(stack: Recurrent, flat: np.ndarray) -> list[list[Weights]]:
    """The weights of MXNet's flat vector by layer and direction, float64."""
    rest = flat.astype(np.float64)
    rows = {"lstm": 4, "gru": 3}.get(stack.mode, 1) * stack.hidden

    def taken(*shape: int) -> np.ndarray:
        nonlocal rest
        count = int(np.prod(shape))
        first, rest = rest[:count].reshape(shape), rest[count:]
        return first

    widths = [stack.inputs, *[stack.hidden * stack.directions] * (stack.layers - 1)]
    directions = range(stack.directions)
    matrices = [[(taken(rows, width), taken(rows, stack.hidden)) for _ in directions] for width in widths]
    biases = [[(taken(rows), taken(rows)) for _ in directions] for _ in widths]
    assert rest.size == 0
    return [
        [Weights(*matrix, *bias) for matrix, bias in zip(of_layer, with_biases)]
        for of_layer, with_biases in zip(matrices, biases)
    ]


def outputs(stack: Recurrent, flat: np.ndarray, data: np.ndarray) -> np.ndarray:
    """What the stack puts out for ``data`` of shape (steps, batch, inputs) from states of zero."""
    return outputs_and_final_states(stack, flat, data)[0]


def outputs_and_final_states(
    stack: Recurrent, flat: np.ndarray, data: np.ndarray, initial: Optional[Sequence[np.ndarray]] = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same with the states of layers and cells after the last step, each (layers x directions, batch, hidden).

    ``initial`` are those before the first step; None: zeros.
    """
    stream, ends = data.astype(np.float64), []
    zeros = np.zeros((stack.layers * stack.directions, data.shape[1], stack.hidden))
    states, cells = initial or (zeros, zeros)
    for number, directions in enumerate(layers(stack, flat)):
        first = number * stack.directions
        runs = [
            _run(stack, weights, stream[:: -1 if backward else 1], states[first + backward], cells[first + backward])
            for backward, weights in enumerate(directions)
        ]
        ends += [(results[-1], cell) for results, cell in runs]
        stream = np.concatenate([results[:: -1 if backward else 1] for backward, (results, _) in enumerate(runs)], -1)
    final, final_cells = zip(*ends)
    return stream, np.stack(final), np.stack(final_cells)


def _run(
    stack: Recurrent, weights: Weights, stream: np.ndarray, state: np.ndarray, cell: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The states after every step, and that of the cells after the last."""
    states = []
    for step in stream:
        of_input = step @ weights.of_input.T + weights.input_bias
        of_state = state @ weights.of_state.T + weights.state_bias
        if stack.mode == "lstm":
            enter, forget, new, leave = np.split(of_input + of_state, 4, axis=1)
            cell = _sigmoid(forget) * cell + _sigmoid(enter) * np.tanh(new)
            state = _sigmoid(leave) * np.tanh(cell)
        elif stack.mode == "gru":
            (reset, update, new), (old_reset, old_update, old_new) = (
                np.split(x, 3, axis=1) for x in (of_input, of_state)
            )
            candidate = np.tanh(new + _sigmoid(reset + old_reset) * old_new)
            kept = _sigmoid(update + old_update)
            state = (1 - kept) * candidate + kept * state
        else:
            total = of_input + of_state
            state = np.tanh(total) if stack.mode == "rnn_tanh" else np.maximum(total, 0)
        states.append(state)
    return np.stack(states), cell


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))
