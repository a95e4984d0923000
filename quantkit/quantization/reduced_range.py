"""Integer weights whose sums of products fit in 16 bits, for processors without VNNI.

Processors with AVX2 or AVX-512 but no VNNI add the products of two neighbours in 16 bits, with saturation
(``vpmaddubsw``, Intel 64 Software Developer's Manual). ONNX Runtime and OpenVINO lay neighbours out along the input
channels, in pairs, and across the kernel's positions where the number of input channels is odd. Depthwise convolutions
they multiply in wider types.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from quantkit.errors import UserError

ReduceRange = Literal["none", "auto", "all"]
"""Which weights have fewer than 8 bits: none, those of channels whose sums would saturate without VNNI, or all."""

# Inputs of 255 times weights that sum up to 128 fit in 16 bits.
_LARGEST_PAIR = 128
_LARGEST = _LARGEST_PAIR // 2

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
        elif largest[channel] > _LARGEST_PAIR:
            found[channel], steps[channel] = _fitted(weight[channel], scale[channel], largest[channel])
    return found, steps


def without_overflow(integers: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The integers, with those nearer to 0 that two neighbours would overflow 16 bits with; the scales stay.

    Args:
        integers: from -127 to 127, (channels, inputs).
        exact: what they were rounded from: of two neighbours the one that lies farther beyond gives way.
    """
    odd = ((0, 0), (0, integers.shape[1] % 2))
    pairs, wanted = (np.pad(each, odd).astype(np.float64).reshape(len(each), -1, 2) for each in (integers, exact))
    while (over := np.abs(pairs.sum(axis=2)) > _LARGEST_PAIR).any():
        # Both have the same sign, since neither is that large alone.
        first = (np.sign(pairs) * (pairs - wanted)).argmax(axis=2)
        channel, pair = np.nonzero(over)
        pairs[channel, pair, first[over]] -= np.sign(pairs[channel, pair, first[over]])
    return pairs.reshape(len(pairs), -1)[:, : integers.shape[1]].astype(np.int8)


def _halved(weight: np.ndarray, scale: np.float32) -> tuple[np.ndarray, np.float32]:
    """One channel in 7 bits."""
    step = np.float32(2) * scale
    return np.clip(_rounded(weight, step), -_LARGEST, _LARGEST).astype(np.int8), step


def _fitted(weight: np.ndarray, scale: np.float32, largest: int) -> tuple[np.ndarray, np.float32]:
    """One channel with the smallest step with which no two neighbours overflow; ``largest`` they sum up to now."""
    coarser = largest / _LARGEST_PAIR
    while coarser < 2:
        step = np.float32(coarser * scale)
        integers = np.clip(_rounded(weight, step), -127, 127).astype(np.int8)
        if _largest_pairs(integers[None])[0] <= _LARGEST_PAIR:
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
