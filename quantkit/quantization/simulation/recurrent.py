"""An INT8 LSTM layer step by step: the engine's arithmetic, with exact sums of products."""

from __future__ import annotations

import numpy as np

from quantkit.ir.recurrent_layer import Matrices
from quantkit.quantization.arithmetic import QuantParams, quantize
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.recurrent_weights import RecurrentIntegers


def int8_lstm(
    data: np.ndarray, weights: Matrices, integers: RecurrentIntegers, form: TensorQuantization, state: QuantParams
) -> np.ndarray:
    """What an INT8 LSTM layer puts out, from states of zero.

    The cell's state and the gates are float32. The state, which is the result too, is rounded after every step.

    Args:
        data: float32, (batch, steps, features).
        weights: the layer's, of which only the biases are read.
        integers: its weights.
        form: the integers of its data.
        state: the rounding of its state.

    Returns:
        float32, (batch, steps, hidden).
    """
    rounding = form.params
    of_input = integers.of_input.astype(np.float64)
    of_state = integers.of_state.astype(np.float64)
    step = integers.scale * np.float64(state.scale)
    bias = weights.input_bias.astype(np.float64) + weights.state_bias
    batch, steps, _ = data.shape
    hidden = cell = np.zeros((batch, of_state.shape[1]))
    results = np.empty((batch, steps, of_state.shape[1]), np.float32)
    for number in range(steps):
        read = quantize(data[:, number], rounding).astype(np.float64) - rounding.zero_point
        gates = (read @ of_input.T + hidden @ of_state.T) * step + bias
        entering, forgetting, new, leaving = np.split(gates, 4, axis=1)
        cell = _sigmoid(forgetting) * cell + _sigmoid(entering) * np.tanh(new)
        hidden = quantize(_sigmoid(leaving) * np.tanh(cell), state).astype(np.float64)
        results[:, number] = hidden * state.scale
    return results


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-values)))
