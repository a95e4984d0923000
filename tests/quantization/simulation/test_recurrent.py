"""The simulator of INT8 LSTM layers, against integers one by one and against FP32."""

from __future__ import annotations

from math import exp, tanh

import numpy as np

from quantkit.calibration.ranges import Range
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.recurrent_weights import recurrent_integers
from quantkit.quantization.simulation.recurrent import int8_lstm
from tests.quantization.test_recurrent_weights import weights

FORM = TensorQuantization(Range(-2.0, 2.0), "int8")
STATE = TensorQuantization(Range(-0.9, 0.9), "int8").params


def one_by_one(data: np.ndarray, features: int, hidden: int) -> np.ndarray:
    """One sequence, with Python's integers."""
    own = weights(features, hidden)
    integers = recurrent_integers(own, FORM.params, STATE)
    state, cell, results = [0] * hidden, [0.0] * hidden, []
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
        state = [
            max(-128, min(127, round(sigmoid(gates[unit + 3 * hidden]) * tanh(cell[unit]) / STATE.scale)))
            for unit in range(hidden)
        ]
        results.append([value * STATE.scale for value in state])
    return np.array(results, np.float32)


def sigmoid(value: float) -> float:
    return 1 / (1 + exp(-value))


def test_every_step_is_that_of_the_integers() -> None:
    features, hidden = 5, 3
    data = np.random.default_rng(2).normal(size=(2, 6, features)).astype(np.float32)
    own = weights(features, hidden)
    integers = recurrent_integers(own, FORM.params, STATE)
    result = int8_lstm(data, own, integers, FORM, STATE)
    np.testing.assert_allclose(result, [one_by_one(each, features, hidden) for each in data], atol=1e-6)
