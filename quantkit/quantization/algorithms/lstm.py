"""LSTM layers through time: rounding and biases for the data and the states that the INT8 layer itself meets.

At every step a layer reads what the layers before have left and the state that its own rounding has left. Its gates are
those of a dense layer of both, so they are corrected like one; but each correction changes the states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from quantkit.host.pair_sums import padded_to_pairs
from quantkit.ir.recurrent_layer import Matrices
from quantkit.quantization.algorithms.bias_correction import bias_correction
from quantkit.quantization.algorithms.least_squares import mean_square
from quantkit.quantization.algorithms.rounding import round_jointly, with_ridge
from quantkit.quantization.arithmetic import QuantParams, dequantize, quantize
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.ptq_config import PTQConfig
from quantkit.quantization.recurrent_weights import RecurrentIntegers, in_units_of_state, real_matrices
from quantkit.quantization.simulation.recurrent import int8_lstm

# More steps of all samples together change nothing in the result.
_ROWS = 10_000

# One correction leaves other states, and so other errors; after the third nothing changes any more.
_CORRECTIONS = 3


@dataclass(frozen=True, eq=False)
class Int8Lstm:
    """An INT8 LSTM layer on sample data.

    Attributes:
        weights: of which biases are read.
        integers: of the weights.
        form: the rounding of data.
        state: the rounding of the state.
        initial: the states that each sample begins with, see ``int8_lstm``.
    """

    weights: Matrices
    integers: RecurrentIntegers
    form: TensorQuantization
    state: QuantParams
    initial: Sequence[np.ndarray] = ()

    def run(self, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the layer puts out, see ``int8_lstm``."""
        return int8_lstm(data, self.weights, self.integers, self.form, self.state, self.initial)

    def states(self, data: np.ndarray) -> np.ndarray:
        """The state that each step reads, float32 (batch, steps, hidden)."""
        rounded = [dequantize(quantize(each, self.state), self.state) for each in self.initial[:1]]
        return read_states(self.run(data)[0], rounded)


def adapted_lstm(layer: Int8Lstm, wanted: np.ndarray, data: np.ndarray, algorithms: PTQConfig) -> Int8Lstm:
    """The layer with other integers and biases, where ``algorithms`` say so. Weights are not refitted.

    Args:
        layer: the layer as it is.
        wanted: its gates in FP32 before their activations, float32 (batch, steps, gates x hidden).
        data: what it reads in INT8, float32 (batch, steps, features); it need not be rounded yet.
        algorithms: the techniques.
    """
    if algorithms.rounding:
        integers = _rounded_jointly(layer, _read(layer, data))
        layer = replace(layer, weights=real_matrices(integers, layer.weights, layer.form.params, layer.state))
        layer = replace(layer, integers=integers)
    if algorithms.bias or algorithms.refit:
        for _ in range(_CORRECTIONS):
            layer = _with_corrected_biases(layer, wanted, data)
    return layer


def gates(weights: Matrices, data: np.ndarray, states: np.ndarray) -> np.ndarray:
    """An LSTM layer's gates before their activations, float32 (batch, steps, gates x hidden).

    Args:
        weights: the layer's.
        data: float32, (batch, steps, features).
        states: the state that each step reads, float32, (batch, steps, hidden).
    """
    bias = weights.input_bias + weights.state_bias
    return np.asarray(data @ weights.of_input.T + states @ weights.of_state.T + bias)


def read_states(results: np.ndarray, initial: Sequence[np.ndarray] = ()) -> np.ndarray:
    """The state that each step reads: the result of the step before.

    Args:
        results: what a layer puts out, float32 (batch, steps, hidden).
        initial: first of all the state that it begins with, float32 (batch, 1, hidden); empty: zeros.
    """
    first = initial[0] if initial else np.zeros_like(results[:, :1])
    return np.concatenate([first, results[:, :-1]], axis=1)


def _read(layer: Int8Lstm, data: np.ndarray) -> np.ndarray:
    """Data and states as the integers that the layer multiplies, float32, ``_side_by_side`` for all samples' steps."""
    rounding = layer.form.params
    integers = quantize(data, rounding).astype(np.float32) - rounding.zero_point
    states = np.rint(layer.states(data) / np.float32(layer.state.scale))
    return _side_by_side(*(each.reshape(-1, each.shape[2]) for each in (integers, states)))


def _side_by_side(of_input: np.ndarray, of_state: np.ndarray) -> np.ndarray:
    """What belongs to data and to states, with a column of zeros between where these would be neighbours otherwise."""
    return np.concatenate([padded_to_pairs(of_input), of_state], axis=1)


def _rounded_jointly(layer: Int8Lstm, rows: np.ndarray) -> RecurrentIntegers:
    """Integers with which the gates change least over ``rows``, of the same scales, so that none overflow."""
    if len(rows) > _ROWS:
        rows = rows[np.sort(np.random.default_rng(0).choice(len(rows), _ROWS, replace=False))]
    # Biases take care of the means.
    rows = (rows - rows.mean(axis=0))[None]
    scale, features = layer.integers.scale, layer.integers.of_input.shape[1]
    weight = _side_by_side(*in_units_of_state(layer.weights, layer.form.params, layer.state))
    curvature = with_ridge(rows.swapaxes(1, 2) @ rows, mean_square(rows) * rows.shape[1])
    integers = round_jointly(weight[None], scale[None], curvature, keeps="pairs")[0].astype(np.int8)
    return RecurrentIntegers(integers[:, :features], integers[:, features + features % 2 :], scale)


def _with_corrected_biases(layer: Int8Lstm, wanted: np.ndarray, data: np.ndarray) -> Int8Lstm:
    rounding = layer.form.params
    read = (quantize(data, rounding).astype(np.float32) - rounding.zero_point) * np.float32(rounding.scale)
    weights = real_matrices(layer.integers, layer.weights, rounding, layer.state)
    present = gates(weights, read, layer.states(data))
    change = bias_correction(wanted.swapaxes(1, 2), present.swapaxes(1, 2), lambda values: values, False)
    return replace(layer, weights=replace(layer.weights, input_bias=layer.weights.input_bias + change))
