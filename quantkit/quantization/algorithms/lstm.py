"""LSTM layers through time: rounding and biases for the data and the states that the INT8 layer itself meets.

At every step a layer reads what the layers before have left and the state that its own rounding has left. Its gates are
those of a dense layer of both, so they are corrected like one; but each correction changes the states.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from quantkit.ir.recurrent_layer import Matrices
from quantkit.quantization.algorithms.bias_correction import bias_correction
from quantkit.quantization.algorithms.least_squares import mean_square
from quantkit.quantization.algorithms.rounding import round_jointly, with_ridge
from quantkit.quantization.arithmetic import QuantParams, quantize
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.ptq_config import PTQConfig
from quantkit.quantization.recurrent_weights import RecurrentIntegers, in_units_of_state, real_matrices
from quantkit.quantization.reduced_range import without_overflow
from quantkit.quantization.simulation.recurrent import int8_lstm

# More steps of all samples together change nothing in the result.
_ROWS = 10_000

# One correction leaves other states, and so other errors; after the third nothing changes any more.
_CORRECTIONS = 3


@dataclass(frozen=True, eq=False)
class Int8Lstm:
    """An INT8 LSTM layer: weights, of which biases are read, their integers, and the rounding of data and state."""

    weights: Matrices
    integers: RecurrentIntegers
    form: TensorQuantization
    state: QuantParams

    def run(self, data: np.ndarray) -> np.ndarray:
        """What the layer puts out, see ``int8_lstm``."""
        return int8_lstm(data, self.weights, self.integers, self.form, self.state)


def adapted_lstm(layer: Int8Lstm, wanted: np.ndarray, data: np.ndarray, algorithms: PTQConfig) -> Int8Lstm:
    """The layer with other integers and biases, where ``algorithms`` say so. Weights are not refitted.

    Args:
        layer: the layer as it is.
        wanted: its gates in FP32 before their activations, float32 (batch, steps, gates x hidden).
        data: what it reads in INT8, float32 (batch, steps, features); it need not be rounded yet.
        algorithms: the techniques.
    """
    if algorithms.rounding:
        integers = _rounded_jointly(layer, _read(layer, data, layer.run(data)))
        layer = replace(layer, weights=real_matrices(integers, layer.weights, layer.form.params, layer.state))
        layer = replace(layer, integers=integers)
    if algorithms.bias or algorithms.refit:
        for _ in range(_CORRECTIONS):
            layer = _with_corrected_biases(layer, wanted, data)
    return layer


def gates(weights: Matrices, data: np.ndarray, results: np.ndarray) -> np.ndarray:
    """An LSTM layer's gates before their activations, float32 (batch, steps, gates x hidden).

    Args:
        weights: the layer's.
        data: float32, (batch, steps, features).
        results: what it puts out, float32, (batch, steps, hidden), from states of zero.
    """
    bias = weights.input_bias + weights.state_bias
    return np.asarray(data @ weights.of_input.T + _states(results) @ weights.of_state.T + bias)


def _states(results: np.ndarray) -> np.ndarray:
    """The state that each step reads: the result of the step before."""
    return np.concatenate([np.zeros_like(results[:, :1]), results[:, :-1]], axis=1)


def _read(layer: Int8Lstm, data: np.ndarray, results: np.ndarray) -> np.ndarray:
    """Data and states as the integers that the layer multiplies, float32 (steps of all samples, features + hidden)."""
    rounding = layer.form.params
    integers = quantize(data, rounding).astype(np.float32) - rounding.zero_point
    states = np.rint(_states(results) / np.float32(layer.state.scale))
    rows: np.ndarray = np.concatenate([integers, states], axis=2)
    return rows.reshape(-1, rows.shape[2])


def _rounded_jointly(layer: Int8Lstm, rows: np.ndarray) -> RecurrentIntegers:
    """Integers with which the gates change least over ``rows``, of the same scales, so that none overflow."""
    if len(rows) > _ROWS:
        rows = rows[np.sort(np.random.default_rng(0).choice(len(rows), _ROWS, replace=False))]
    # Biases take care of the means.
    rows = (rows - rows.mean(axis=0))[None]
    scale, features = layer.integers.scale, layer.integers.of_input.shape[1]
    weight = np.concatenate(in_units_of_state(layer.weights, layer.form.params, layer.state), axis=1)
    curvature = with_ridge(rows.swapaxes(1, 2) @ rows, mean_square(rows) * rows.shape[1])
    integers = round_jointly(weight[None], scale[None], curvature, keeps_peak=False)[0]
    exact = weight / scale[:, None]
    of_input = without_overflow(integers[:, :features], exact[:, :features])
    return RecurrentIntegers(of_input, without_overflow(integers[:, features:], exact[:, features:]), scale)


def _with_corrected_biases(layer: Int8Lstm, wanted: np.ndarray, data: np.ndarray) -> Int8Lstm:
    rounding = layer.form.params
    read = (quantize(data, rounding).astype(np.float32) - rounding.zero_point) * np.float32(rounding.scale)
    weights = real_matrices(layer.integers, layer.weights, rounding, layer.state)
    present = gates(weights, read, layer.run(data))
    change = bias_correction(wanted.swapaxes(1, 2), present.swapaxes(1, 2), lambda values: values, False)
    return replace(layer, weights=replace(layer.weights, input_bias=layer.weights.input_bias + change))
