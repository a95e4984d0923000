"""An INT8 LSTM layer step by step: the arithmetic of engines, with exact sums of products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quantkit.calibration.ranges import Range
from quantkit.ir.recurrent_layer import Matrices
from quantkit.quantization.arithmetic import QuantParams, affine_params, quantize
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.recurrent_weights import RecurrentIntegers


def int8_lstm(
    data: np.ndarray,
    weights: Matrices,
    integers: RecurrentIntegers,
    form: TensorQuantization,
    state: QuantParams,
    initial: Sequence[np.ndarray] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """What an INT8 LSTM layer puts out.

    The cell's state and the gates are float32. The state, which is the result too, is rounded after every step.

    Args:
        data: float32, (batch, steps, features).
        weights: the layer's, of which only the biases are read.
        integers: its weights.
        form: the integers of its data.
        state: the rounding of its state.
        initial: the states of layer and cells that it begins with, each float32 (batch, 1, hidden); empty: zeros.

    Returns:
        Its results, float32 (batch, steps, hidden), and the final state of its cells, float32 (batch, 1, hidden).
    """
    rounding = form.params
    of_input = integers.of_input.astype(np.float64)
    of_state = integers.of_state.astype(np.float64)
    step = integers.scale * np.float64(state.scale)
    bias = weights.input_bias.astype(np.float64) + weights.state_bias
    batch, steps, _ = data.shape
    first, cell = _begun(initial, batch, of_state.shape[1])
    hidden = quantize(first, state).astype(np.float64)
    results = np.empty((batch, steps, of_state.shape[1]), np.float32)
    for number in range(steps):
        read = quantize(data[:, number], rounding).astype(np.float64) - rounding.zero_point
        gates = (read @ of_input.T + hidden @ of_state.T) * step + bias
        result, cell = _stepped(gates, cell)
        hidden = quantize(result, state).astype(np.float64)
        results[:, number] = hidden * state.scale
    return results, cell[:, None].astype(np.float32)


def dynamic_int8_lstm(
    data: np.ndarray,
    weights: Matrices,
    integers: RecurrentIntegers,
    form: TensorQuantization,
    state: QuantParams,
    initial: Sequence[np.ndarray] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """What ONNX Runtime's ``DynamicQuantizeLSTM`` computes for sequences that one thread computes together.

    Data of all sequences and steps have one scale and zero point, from their smallest and largest value; the state has
    others at each step. The result is not rounded.

    Args:
        data: float32, (batch, steps, features).
        weights: the layer's, of which only the biases are read.
        integers: its weights.
        form: the integers of the plan for its data: ``integers`` are in units of state and data.
        state: the rounding of the plan for its state.
        initial: see ``int8_lstm``.

    Returns:
        See ``int8_lstm``.
    """
    of_input = integers.of_input * (integers.scale * np.float64(state.scale / form.params.scale))[:, None]
    of_state = integers.of_state * integers.scale.astype(np.float64)[:, None]
    bias = weights.input_bias.astype(np.float64) + weights.state_bias
    read = _dynamically_rounded(data) @ of_input.T + bias
    hidden, cell = _begun(initial, len(data), of_state.shape[1])
    results = np.empty((*data.shape[:2], of_state.shape[1]), np.float32)
    for number in range(data.shape[1]):
        hidden, cell = _stepped(read[:, number] + _dynamically_rounded(hidden) @ of_state.T, cell)
        results[:, number] = hidden
    return results, cell[:, None].astype(np.float32)


def _begun(initial: Sequence[np.ndarray], batch: int, hidden: int) -> tuple[np.ndarray, np.ndarray]:
    """The state and the cell before the first step."""
    if not initial:
        return np.zeros((batch, hidden)), np.zeros((batch, hidden))
    state, cell = (each.reshape(batch, hidden).astype(np.float64) for each in initial)
    return state, cell


def _dynamically_rounded(values: np.ndarray) -> np.ndarray:
    """The values as multiples of a scale that their own range sets."""
    params = affine_params(Range(float(values.min()), float(values.max())))
    return (quantize(values, params).astype(np.float64) - params.zero_point) * params.scale


def _stepped(gates: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The state and the cell after a step."""
    entering, forgetting, new, leaving = np.split(gates, 4, axis=1)
    cell = _sigmoid(forgetting) * cell + _sigmoid(entering) * np.tanh(new)
    return _sigmoid(leaving) * np.tanh(cell), cell


def _sigmoid(values: np.ndarray) -> np.ndarray:
    # As 1 / (1 + exp(-x)), which overflows far below 0.
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * values))
