"""Integer weights whose sums of products fit in 16 bits, for processors without VNNI (``host.pair_sums``).

Dense layers and the rows of LSTM layers have neighbours along their inputs, in pairs. Of convolutions, ONNX Runtime and
OpenVINO lay them out along the input channels, in pairs, and across the kernel's positions where the number of input
channels is odd. Depthwise convolutions they multiply in wider types.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from quantkit.errors import UserError
from quantkit.host.pair_sums import LARGEST_PAIR, padded_to_pairs
from quantkit.quantization.weights import LEVELS, per_channel_int8

ReduceRange = Literal["none", "auto", "all"]
"""Which weights have fewer than 8 bits: none, those of channels whose sums would saturate without VNNI, or all."""

_LARGEST = LARGEST_PAIR // 2

# By how much a step grows at a time until a channel's integers fit.
_GROWTH = 1.005


def with_reduced_range(
    weight: np.ndarray, integers: np.ndarray, scale: np.ndarray, reduce: ReduceRange, depthwise: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Integers with coarser steps for the channels (axis 0) that need them.

    A channel's integers keep their sum, as near as whole numbers can: what rounding adds to all of them would shift
    the mean of its outputs, which are sums of inputs of mostly one sign (Nagel et al., "Data-Free Quantization", 2019).

    Args:
        weight: float32, (channels, inputs, ...).
        integers: what it is rounded to with all 8 bits, int8, of the same shape.
        scale: float32, (channels,), that of ``integers``.
        reduce: ``none``; ``auto``: where two neighbours would overflow with inputs of 255, the smallest steps with
            which none do, at most twice as large; ``all``: 7 bits, from -64 to 64, everywhere.
        depthwise: whether it is a depthwise convolution's, which ``auto`` leaves as it is.

    Returns:
        The integers and the scales.

    Raises:
        UserError: ``reduce`` is none of these.
    """
    if reduce not in get_args(ReduceRange):
        raise UserError(f"unknown reduction of ranges {reduce!r}; choose one of {', '.join(get_args(ReduceRange))}")
    if reduce == "none" or (reduce == "auto" and depthwise):
        return integers, scale
    found, steps = integers.copy(), scale.copy()
    largest = _largest_pairs(integers)
    for channel in np.flatnonzero(integers.reshape(len(integers), -1).any(axis=1)):
        if reduce == "all":
            found[channel], steps[channel] = _halved(weight[channel], scale[channel])
        elif largest[channel] > LARGEST_PAIR:
            found[channel], steps[channel] = _fitted(weight[channel], scale[channel], largest[channel])
    return found, steps


def rounded_in_pairs(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of weights as integers of which no two neighbours overflow, with the smallest steps with which none do.

    Args:
        rows: float32, (channels, inputs).

    Returns:
        The integers (int8, the shape of ``rows``) and the scales (float32, (channels,)).
    """
    padded = padded_to_pairs(rows)
    integers, scale = with_reduced_range(padded, *per_channel_int8(padded), "auto")
    return integers[:, : rows.shape[1]], scale


def without_overflow(exact: np.ndarray) -> np.ndarray:
    """The nearest integers from -127 to 127 of which no two neighbours overflow, int8; the scales stay.

    Args:
        exact: weights in units of their scales, (channels, inputs).
    """
    wanted = padded_to_pairs(exact).reshape(len(exact), -1, 2)
    pairs = np.rint(wanted).clip(-LEVELS, LEVELS)
    over = np.abs(pairs.sum(axis=2)) > LARGEST_PAIR
    # Both have the same sign, since neither is that large alone: they share the excess.
    first, second = np.abs(wanted[over]).T
    given = np.rint((LARGEST_PAIR + first - second) / 2).clip(1, LEVELS)
    pairs[over] = np.sign(pairs[over]) * np.stack([given, LARGEST_PAIR - given], axis=1)
    return np.asarray(pairs.reshape(len(pairs), -1)[:, : exact.shape[1]].astype(np.int8))


def _halved(weight: np.ndarray, scale: np.float32) -> tuple[np.ndarray, np.float32]:
    """One channel in 7 bits."""
    step = np.float32(2) * scale
    return np.clip(_rounded(weight, step), -_LARGEST, _LARGEST).astype(np.int8), step


def _fitted(weight: np.ndarray, scale: np.float32, largest: int) -> tuple[np.ndarray, np.float32]:
    """One channel with the smallest step with which no two neighbours overflow; ``largest`` they sum up to now."""
    coarser = largest / LARGEST_PAIR
    while coarser < 2:
        step = np.float32(coarser * scale)
        integers = np.clip(_rounded(weight, step), -127, 127).astype(np.int8)
        if _largest_pairs(integers[None])[0] <= LARGEST_PAIR:
            return integers, step
        coarser *= _GROWTH
    return _halved(weight, scale)


def _rounded(weight: np.ndarray, step: np.float32) -> np.ndarray:
    """Whole multiples of ``step`` with the sum of what they stand for: those nearest to a tie give way."""
    exact = weight.reshape(-1).astype(np.float64) / step
    nearest: np.ndarray = np.rint(exact)
    left = exact - nearest
    missing = int(np.rint(left.sum()))
    nearest[np.argsort(-left * np.sign(missing), kind="stable")[: abs(missing)]] += np.sign(missing)
    found: np.ndarray = nearest.reshape(weight.shape)
    return found


def _largest_pairs(integers: np.ndarray) -> np.ndarray:
    """For each channel the largest absolute sum of two neighbours, int32; 0 where there are none."""
    inputs = integers.shape[1]
    ordered = np.moveaxis(integers.reshape(len(integers), inputs, -1), 1, 2)
    row = ordered.reshape(len(integers), -1).astype(np.int32)
    sums = np.abs(row[:, 1:] + row[:, :-1])
    found: np.ndarray = (sums if inputs % 2 else sums[:, ::2]).max(axis=1, initial=0)
    return found
