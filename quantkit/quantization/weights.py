"""Weights per output channel: integers for dense layers, and floats that the engine can round for convolutions."""

from __future__ import annotations

from typing import Optional

import numpy as np

# The engine adds biases as 32-bit integers; this leaves a factor of 4 for the products themselves.
_LARGEST_BIAS = 2.0**29
_NEGLIGIBLE = 1e-4


def per_channel_int8(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quantize weights symmetrically per output channel (axis 0).

    Returns:
        The integers (int8, the shape of ``weight``) and the scales (float32, (channels,)); a channel of
        zeros has scale 1.
    """
    flat = weight.reshape(len(weight), -1).astype(np.float64)
    peak = np.abs(flat).max(axis=1)
    scale = np.where(peak > 0, peak / 127.0, 1.0).astype(np.float32)
    integers = np.clip(np.rint(flat / scale[:, None]), -127, 127).astype(np.int8)
    return integers.reshape(weight.shape), scale


def without_dead_channels(
    weight: np.ndarray, bias: Optional[np.ndarray], data_scale: float, output_scale: float
) -> np.ndarray:
    """Weights that the engine can quantize itself without overflow.

    A convolution keeps float weights and rounds them when it first runs, with a scale per channel from
    that channel's largest weight, and its bias in units of that scale. In a channel of zeros, or of
    weights tiny against the bias, this divides by zero or overflows 32 bits (MXNet 1.6 checks
    neither). There the largest weight is raised to a value that stays without effect: it adds at most
    1e-4 of an output step, or 2^-14 of the bias.

    Args:
        weight: float32, (channels, ...).
        bias: float32, (channels,), or None.
        data_scale: the real value of one integer step of the input.
        output_scale: the same of the output.
    """
    flat = weight.reshape(len(weight), -1)
    strongest = np.abs(flat).argmax(axis=1)
    peak = np.take_along_axis(flat, strongest[:, None], axis=1)[:, 0]
    largest_input = 255.0 * data_scale
    floor = np.full(len(flat), _NEGLIGIBLE * output_scale / largest_input)
    if bias is not None:
        floor = np.maximum(floor, np.abs(bias) * 127.5 / data_scale / _LARGEST_BIAS)
    weak = np.abs(peak) < floor
    if not weak.any():
        return weight
    safe = flat.copy()
    rows = np.flatnonzero(weak)
    safe[rows, strongest[rows]] = np.where(peak[rows] < 0, -1.0, 1.0) * floor[rows]
    return safe.reshape(weight.shape)
