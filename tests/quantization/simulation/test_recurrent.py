"""The simulator of INT8 LSTM layers, against integers one by one and against FP32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import exp, tanh
from typing import Optional

import numpy as np
import pytest

from quantkit.calibration.ranges import Range
from quantkit.ir.recurrent_layer import Matrices
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.recurrent_weights import RecurrentIntegers, recurrent_integers
from quantkit.quantization.simulation.recurrent import dynamic_int8_lstm, int8_lstm
from tests.quantization.test_recurrent_weights import weights

Arithmetic = Callable[..., tuple[np.ndarray, np.ndarray]]

FORM = TensorQuantization(Range(-2.0, 2.0), "int8")
STATE = TensorQuantization(Range(-0.9, 0.9), "int8").params


def one_by_one(
    data: np.ndarray, features: int, hidden: int, initial: Optional[Sequence[np.ndarray]] = None
) -> tuple[np.ndarray, list[float]]:
    """Results and the cells' final state of one sequence, with Python's integers."""
    own = weights(features, hidden)
    integers = recurrent_integers(own, FORM.params, STATE)
    first, cells = initial or (np.zeros(hidden), np.zeros(hidden))
    state, cell = [rounded(value) for value in first], [float(value) for value in cells]
    results = []
    for step in data:
        read = [max(-128, min(127, round(float(value) / FORM.params.scale))) for value in step]
        gates = []
        for row in range(4 * hidden):
            total = sum(int(integers.of_input[row, i]) * read[i] for i in range(features))
            total += sum(int(integers.of_state[row, i]) * state[i] for i in range(hidden))
            bias = float(own.input_bias[row]) + float(own.state_bias[row])
            gates.append(total * float(integers.scale[row]) * STATE.scale + bias)
        for unit in range(hidden):
            entering, forgetting, new = (gates[unit + hidden * gate] for gate in range(3))
            cell[unit] = sigmoid(forgetting) * cell[unit] + sigmoid(entering) * tanh(new)
        state = [rounded(sigmoid(gates[unit + 3 * hidden]) * tanh(cell[unit])) for unit in range(hidden)]
        results.append([value * STATE.scale for value in state])
    return np.array(results, np.float32), cell


def rounded(state: float) -> int:
    return max(-128, min(127, round(float(state) / STATE.scale)))


def sigmoid(value: float) -> float:
    return 1 / (1 + exp(-value))


def layer(features: int, hidden: int) -> tuple[Matrices, RecurrentIntegers]:
    own = weights(features, hidden)
    return own, recurrent_integers(own, FORM.params, STATE)


def sequences(count: int, steps: int, features: int) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(count, steps, features)).astype(np.float32)


def states(count: int, hidden: int) -> list[np.ndarray]:
    """Of layer and cells; some lie beyond the range of the state."""
    random = np.random.default_rng(3)
    return [random.normal(0, spread, (count, 1, hidden)).astype(np.float32) for spread in (0.6, 1.5)]


@pytest.mark.parametrize("given", [False, True], ids=["zero", "given"])
def test_every_step_is_that_of_the_integers(given: bool) -> None:
    features, hidden = 5, 3
    data, initial = sequences(2, 6, features), states(2, hidden)
    result, cell = int8_lstm(data, *layer(features, hidden), FORM, STATE, initial if given else ())
    for number, each in enumerate(data):
        begun = [state[number, 0] for state in initial] if given else None
        wanted, wanted_cell = one_by_one(each, features, hidden, begun)
        np.testing.assert_allclose(result[number], wanted, atol=1e-6)
        np.testing.assert_allclose(cell[number, 0], wanted_cell, atol=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("arithmetic", [int8_lstm, dynamic_int8_lstm])
def test_gates_far_from_zero_are_open_or_closed(arithmetic: Arithmetic) -> None:
    own, integers = layer(5, 3)
    # Of the units in turn, the input gate and the new value are as large as can be, then the other two gates.
    own = replace(own, input_bias=np.resize(np.float32([1e4, -1e4]), 12))
    result, cell = arithmetic(sequences(2, 1, 5), own, integers, FORM, STATE)
    np.testing.assert_array_equal(cell[:, 0], [[1, 0, 1]] * 2)
    np.testing.assert_array_equal(result, np.zeros((2, 1, 3)))


@pytest.mark.parametrize(("arithmetic", "error"), [(int8_lstm, 0.0), (dynamic_int8_lstm, 1e-6)])
def test_a_sequence_in_pieces_is_the_whole_sequence(arithmetic: Arithmetic, error: float) -> None:
    data = sequences(1, 30, 8)
    # Where the scale of data is dynamic, each piece has to have the same extremes.
    data[:, ::10, 0], data[:, ::10, 1] = 4, -4
    own = layer(8, 6)
    whole, last = arithmetic(data, *own, FORM, STATE)
    pieces: list[np.ndarray] = []
    cell: tuple[np.ndarray, ...] = ()
    for start in range(0, 30, 10):
        begun = (pieces[-1][:, -1:], *cell) if pieces else ()
        result, *cell_after = arithmetic(data[:, start : start + 10], *own, FORM, STATE, begun)
        pieces.append(result)
        cell = tuple(cell_after)
    np.testing.assert_allclose(np.concatenate(pieces, axis=1), whole, rtol=0, atol=error)
    np.testing.assert_allclose(cell[0], last, atol=1e-6)
