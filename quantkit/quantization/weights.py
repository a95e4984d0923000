"""Weights per output channel: integers for dense layers, and floats that the engine can round for convolutions."""

from __future__ import annotations

from typing import Optional

import numpy as np

from quantkit.quantization.arithmetic import LIMITS, SMALLEST_PEAK
from quantkit.quantization.grouped_weights import engine_form, references

# The engine adds biases as 32-bit integers; this leaves a factor of 4 for the products themselves.
_LARGEST_BIAS = 2.0**29
_NEGLIGIBLE = 1e-4

CONVOLUTION_LEVELS = np.float32(127.5)
"""How many steps the largest weight of a convolution's channel stands for in the engine."""
LEVELS = 127
"""The largest integer of a dense layer's weights."""


def per_channel_int8(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quantize weights symmetrically per output channel (axis 0), whose largest weight becomes 127.

    Args:
        weight: float32, (channels, ...).

    Returns:
        The integers (int8, the shape of ``weight``) and the scales (float32, (channels,)); a channel of
        zeros, or of weights below 1e-30, has scale 1. Integers times scales, as float32, give the same integers and
        scales again.
    """
    flat = weight.reshape(len(weight), -1).astype(np.float64)
    scale = peak_scale(flat, LEVELS)
    # Nothing to saturate: the largest weight of a channel is so many steps.
    integers = np.rint(flat / scale[:, None]).astype(np.int8)
    return integers.reshape(weight.shape), scale


def multiples(rows: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Rows of weights as multiples of each row's scale: int8 from -127 to 127, the shape of ``rows``.

    Args:
        rows: float32, (channels, inputs).
        scale: float32, (channels,), positive.
    """
    return np.asarray(np.rint(rows / scale[:, None]).clip(-LEVELS, LEVELS).astype(np.int8))


def peak_scale(weight: np.ndarray, levels: float) -> np.ndarray:
    """The scale of each channel (axis 0), float32, that its largest weight sets, which stands for ``levels`` steps.

    A channel of zeros, or of weights below 1e-30, has scale 1.
    """
    peak = np.abs(weight.reshape(len(weight), -1)).max(axis=1)
    return np.asarray(np.where(peak > SMALLEST_PEAK, peak / np.float32(levels), 1.0), np.float32)


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


def engine_integers(weight: np.ndarray, halved: bool = False, groups: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """The integers that the engine's INT8 convolutions make of float weights when they first run.

    Of grouped convolutions it is given the weights in another form: see ``grouped_weights``.

    The arithmetic of MXNet 1.6 and newer (``GetWeightScales`` in src/operator/subgraph/mkldnn) in its own
    float32, since the largest weight of a channel always falls on the edge between two integers:
    a positive one saturates at 127, a negative one becomes -127 or -128, as the float32 rounding has it.
    Channels of weights below 1e-30, which the engine never sees (see ``without_dead_channels``), count as zeros.

    Args:
        weight: float32, (channels, ...).
        halved: the integers for signed input on processors without VNNI, which take half as many levels.
        groups: the number of groups of the convolution.

    Returns:
        The integers (int8, the shape of ``weight``) and the scales (float32, (channels,)).
    """
    flat = engine_form(weight, groups).reshape(len(weight), -1).astype(np.float32)
    peak = np.abs(flat).max(axis=1)
    factor = CONVOLUTION_LEVELS / np.where(peak > SMALLEST_PEAK, peak, np.float32(1.0))
    if halved:
        factor = factor * np.float32(0.5)
    integers = np.rint(flat * factor[references(len(flat), groups)][:, None])
    return np.clip(integers, *LIMITS["int8"]).astype(np.int8).reshape(weight.shape), (1 / factor).astype(np.float32)


def engine_weights(integers: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Float weights of which the engine's INT8 convolutions make ``integers`` with ``scale`` again.

    Args:
        integers: from -127 to 127, (channels, ...); every channel must reach 127 or -127, or be all 0.
        scale: float32, (channels,).

    Returns:
        float32, the shape of ``integers``. A channel without a 127 may come back with -128 for -127, and
        with a scale smaller by up to 1 in 1000: see ``engine_integers``.
    """
    flat = integers.reshape(len(integers), -1)
    weight: np.ndarray = (flat * scale[:, None]).astype(np.float32)
    for channel in np.flatnonzero(np.abs(flat).max(axis=1)):
        peak = np.float32(CONVOLUTION_LEVELS * scale[channel])
        positive = flat[channel] == 127
        if positive.any():
            weight[channel, positive] = peak
        else:
            weight[channel, flat[channel] == -127] = -_rounded_down(peak)
    return weight.reshape(integers.shape)


def _rounded_down(peak: np.float32) -> np.float32:
    """The nearest value below ``peak`` that the engine rounds to 127 rather than 128, where there is one."""
    near = (peak * (1 - np.arange(4096) * 2.0**-22)).astype(np.float32)
    below = near * (CONVOLUTION_LEVELS / near) < CONVOLUTION_LEVELS
    return np.float32(near[below.argmax()])
