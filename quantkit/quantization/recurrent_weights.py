"""The integers of an INT8 LSTM layer, so that MXNet's kernel computes with just these.

The kernel (``_contrib_quantized_rnn`` of MXNet 1.9.1, oneDNN's ``lstm_forward`` with u8 data and s8 weights) has one
scale and one zero point for the data, the state and the result, and one scale for each row of the weights of data and
state together, 127 over the row's largest weight. It runs on instructions without VNNI alone, which add the products of
two neighbours in 16 bits, with saturation. Stated by oneDNN's developer guide (RNN, "Data Types", and "Int8
Inference"); the rest follows from what the kernel puts out.

So weights of the data are given in units of the state, and rows have coarser steps where two neighbours could overflow:
a column of its own, whose data are zero, holds the weight that sets the row's scale.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Optional

import numpy as np

from quantkit.host.pair_sums import padded_to_pairs
from quantkit.ir.recurrent_layer import Matrices, RecurrentLayer, known_matrices
from quantkit.quantization.arithmetic import QuantParams
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.reduced_range import rounded_in_pairs
from quantkit.quantization.weights import LEVELS, multiples

STATE_ZERO_POINT = 128
"""The zero point of data, state and result in the kernel: int8, moved into the range of uint8."""


@dataclass(frozen=True, eq=False)
class RecurrentIntegers:
    """Weights of an LSTM layer as integers, and the real value of one step of each row in units of the state's step.

    Attributes:
        of_input: int8, (rows, features).
        of_state: int8, (rows, hidden).
        scale: float32, (rows,). Gates are sums of integers of data or state times weights, times ``scale`` and the
            state's scale.
    """

    of_input: np.ndarray
    of_state: np.ndarray
    scale: np.ndarray


def lstm_integers(network: QuantizedGraph, layer: RecurrentLayer) -> RecurrentIntegers:
    """The integers of an INT8 LSTM layer of a quantized network."""
    data, state = (network.form(tensor).params for tensor in (layer.data, layer.node.output))
    scale = network.weight_scales.get(layer.node.name)
    return recurrent_integers(known_matrices(network.graph, layer), data, state, scale)


def recurrent_integers(
    weights: Matrices, data: QuantParams, state: QuantParams, scale: Optional[np.ndarray] = None
) -> RecurrentIntegers:
    """Weights as integers of which no two neighbours overflow 16 bits.

    Args:
        weights: the layer's, float32.
        data: the rounding of its data.
        state: the rounding of its state and result.
        scale: that of each row, float32 (rows,), for weights that are ``real_matrices`` of such integers; None: they
            are rounded, with the smallest steps with which none overflow.
    """
    of_input, of_state = in_units_of_state(weights, data, state)
    if scale is not None:
        return RecurrentIntegers(multiples(of_input, scale), multiples(of_state, scale), scale)
    # No input is a neighbour of the state.
    padded = padded_to_pairs(of_input)
    integers, scale = rounded_in_pairs(np.concatenate([padded, of_state], axis=1))
    return RecurrentIntegers(integers[:, : of_input.shape[1]], integers[:, padded.shape[1] :], scale)


def unrounded(weights: Matrices, data: QuantParams, state: QuantParams, scale: np.ndarray) -> RecurrentIntegers:
    """The weights as multiples of the rows' ``scale`` that are not rounded: float32 in place of int8."""
    of_input, of_state = in_units_of_state(weights, data, state)
    return RecurrentIntegers(of_input / scale[:, None], of_state / scale[:, None], scale)


def in_units_of_state(weights: Matrices, data: QuantParams, state: QuantParams) -> tuple[np.ndarray, np.ndarray]:
    """The weights of data and of state, float32, where both are integers of which one stands for the state's scale."""
    return weights.of_input * np.float32(data.scale / state.scale), weights.of_state


def real_matrices(integers: RecurrentIntegers, weights: Matrices, data: QuantParams, state: QuantParams) -> Matrices:
    """The weights that integers stand for, float32, with the biases of ``weights``."""
    of_input = integers.of_input * (integers.scale[:, None] * np.float64(state.scale / data.scale))
    of_state = integers.of_state * integers.scale[:, None]
    return replace(weights, of_input=of_input.astype(np.float32), of_state=of_state.astype(np.float32))


def engine_matrices(weights: Matrices, integers: RecurrentIntegers, data: QuantParams, state: QuantParams) -> Matrices:
    """Float weights of which the kernel makes ``integers``, with columns for data of zero at the end.

    What the zero points of data and kernel differ by goes into the bias.
    """
    zeros = added_columns(integers)
    of_input = np.pad(integers.of_input, ((0, 0), (0, zeros)))
    if zeros:
        of_input[:, -1] = LEVELS
    scale = integers.scale[:, None]
    return Matrices(
        (of_input * scale).astype(np.float32),
        (integers.of_state * scale).astype(np.float32),
        kernel_bias(weights, replace(integers, of_input=of_input), data, state),
        np.zeros_like(weights.state_bias),
    )


def kernel_bias(weights: Matrices, integers: RecurrentIntegers, data: QuantParams, state: QuantParams) -> np.ndarray:
    """The sum of the layer's biases, float32, (rows,), where data and state have the zero point of the state.

    Args:
        weights: the layer's, of which only the biases are read.
        integers: its weights.
        data: the rounding of its data, whose integers have ``kernel_zero_point``.
        state: the rounding of its state.
    """
    step = integers.scale * np.float64(state.scale)
    moved = (STATE_ZERO_POINT - kernel_zero_point(data)) * integers.of_input.sum(axis=1, dtype=np.int64)
    bias: np.ndarray = weights.input_bias.astype(np.float64) + weights.state_bias + moved * step
    return bias.astype(np.float32)


def engine_integers(weights: Matrices, features: int, scale: np.ndarray) -> RecurrentIntegers:
    """The integers that the kernel makes of ``engine_matrices`` of a layer that reads so many features."""
    return RecurrentIntegers(
        multiples(weights.of_input[:, :features], scale), multiples(weights.of_state, scale), scale
    )


def added_columns(integers: RecurrentIntegers) -> int:
    """How many columns of zeros the data get: none where each row's largest weight sets its scale by itself."""
    rows = np.concatenate([integers.of_input, integers.of_state], axis=1)
    peaks = np.abs(rows.astype(np.int16)).max(axis=1)
    if (peaks == LEVELS).all():
        return 0
    # The last column must be no neighbour of the data's.
    return 1 + integers.of_input.shape[1] % 2


def kernel_zero_point(data: QuantParams) -> int:
    """The zero point of a layer's data as uint8: signed integers are moved into its range."""
    return data.zero_point if data.dtype == "uint8" else STATE_ZERO_POINT
