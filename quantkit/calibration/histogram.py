"""A histogram of a stream of values; it does not depend on how the stream is split into batches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from quantkit.calibration.observer import extrema

BINS = 8192
"""Bins on each side of zero: at full range 32 for each of the 255 steps of uint8, 16 in the worst case."""

_EXPONENT_OF_SPAN = BINS.bit_length() - 1
_SMALLEST_EXPONENT = -149
"""The exponent of the smallest positive float32."""
_CHUNK = 1 << 15
"""Values binned at a time; the intermediate arrays then stay in the core's private cache."""

Counts = np.ndarray[Any, np.dtype[np.int64]]


class Histogram:
    """Counts of float32 values by sign and magnitude, in bins whose width is a power of two.

    Bin i of a side holds the values whose magnitude lies in [i * width, (i + 1) * width); zeros are
    counted separately. The width is the smallest power of two for which the largest magnitude so far
    fits into the last bin. When a larger magnitude comes, pairs of neighbouring bins are added, which
    gives exactly the counts of bins twice as wide. The counts therefore depend on the values alone,
    neither on their order nor on the batches, and histograms merge exactly.

    Attributes:
        positive, negative: int64 counts of shape (BINS,).
        zeros: the number of values equal to zero.
        total: the number of all values.
        minimum, maximum: the exact extremes; 0 where nothing was added.
    """

    def __init__(self) -> None:
        """Start with no values."""
        self.positive: Counts = np.zeros(BINS, np.int64)
        self.negative: Counts = np.zeros(BINS, np.int64)
        self.zeros = 0
        self.total = 0
        self.minimum = 0.0
        self.maximum = 0.0
        self._exponent = _SMALLEST_EXPONENT

    @property
    def width(self) -> float:
        """The width of a bin, in the units of the values."""
        return math.ldexp(1.0, self._exponent)

    @property
    def largest(self) -> float:
        """The largest magnitude added, exactly."""
        return max(abs(self.minimum), abs(self.maximum))

    @property
    def used(self) -> int:
        """The number of bins up to and including that of the largest magnitude; 0 if all values are zero."""
        return math.floor(math.ldexp(self.largest, -self._exponent)) + 1 if self.largest else 0

    def magnitudes(self) -> Counts:
        """The sum of both sides' counts, shape (``used``,)."""
        return self.positive[: self.used] + self.negative[: self.used]

    def add(self, batch: np.ndarray[Any, Any]) -> None:
        """Count the values of ``batch``, of any shape, as float32.

        Raises:
            DataError: a value is NaN or infinite; nothing is counted then.
        """
        values = np.ascontiguousarray(batch, np.float32).ravel()
        if not values.size:
            return
        low, high = extrema(values)
        self._widen(low, high, values.size)
        if low == high == 0:
            self.zeros += values.size
            return
        positive_only = low >= 0
        # float32 cannot hold the factor for the very smallest spans.
        dtype = np.float32 if self._exponent >= -126 else np.float64
        factor = dtype(math.ldexp(1.0, -self._exponent))
        scaled = np.empty(min(_CHUNK, values.size), dtype)
        offset = np.empty(scaled.size, np.float32)
        index = np.empty(scaled.size, np.intp)
        counts = np.zeros(2 * BINS, np.int64)
        zeros = 0
        for start in range(0, values.size, _CHUNK):
            chunk = values[start : start + _CHUNK]
            size = chunk.size
            zeros += size - np.count_nonzero(chunk != 0)
            if positive_only:
                np.multiply(chunk, factor, out=scaled[:size])
            else:
                np.abs(chunk, out=scaled[:size])
                np.multiply(scaled[:size], factor, out=scaled[:size])
                # Truncate before adding the offset: a sum of two integers below 2^24 is exact, others may be rounded.
                np.trunc(scaled[:size], out=scaled[:size])
                np.multiply(chunk < 0, np.float32(BINS), out=offset[:size])
                np.add(scaled[:size], offset[:size], out=scaled[:size])
            np.copyto(index[:size], scaled[:size], casting="unsafe")
            counts += np.bincount(index[:size], minlength=2 * BINS)
        counts[0] -= zeros
        self.zeros += zeros
        self.positive += counts[:BINS]
        self.negative += counts[BINS:]

    def merge(self, other: Histogram) -> None:
        """Add the counts of ``other``."""
        if not other.total:
            return
        self._widen(other.minimum, other.maximum, other.total)
        halvings = self._exponent - other._exponent
        self.positive += _coarser(other.positive, halvings)
        self.negative += _coarser(other.negative, halvings)
        self.zeros += other.zeros

    def state(self) -> Mapping[str, np.ndarray]:
        """All that has been counted.

        Int64 counts of both sides; the numbers of zeros and of all values, and the width's exponent, int64 of shape
        (3,); the extremes, float64 of shape (2,).
        """
        return {
            "positive": self.positive,
            "negative": self.negative,
            "numbers": np.array([self.zeros, self.total, self._exponent], np.int64),
            "extremes": np.array([self.minimum, self.maximum]),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over the ``state`` of another histogram."""
        self.positive, self.negative = state["positive"].copy(), state["negative"].copy()
        self.zeros, self.total, self._exponent = map(int, state["numbers"])
        self.minimum, self.maximum = map(float, state["extremes"])

    def _widen(self, low: float, high: float, count: int) -> None:
        """Make room for ``count`` values between ``low`` and ``high``; update the extremes and the total."""
        self.minimum = min(low, self.minimum) if self.total else low
        self.maximum = max(high, self.maximum) if self.total else high
        self.total += count
        exponent = _exponent_for(self.largest)
        if exponent is not None and exponent > self._exponent:
            self.positive = _coarser(self.positive, exponent - self._exponent)
            self.negative = _coarser(self.negative, exponent - self._exponent)
            self._exponent = exponent


def _exponent_for(largest: float) -> int | None:
    """The exponent of the narrowest bins that can hold ``largest``; None for zero, which needs no bin."""
    if not largest:
        return None
    return max(math.frexp(largest)[1] - _EXPONENT_OF_SPAN, _SMALLEST_EXPONENT)


def _coarser(counts: Counts, halvings: int) -> Counts:
    """``counts`` in bins that are 2 ** ``halvings`` times as wide."""
    if not halvings:
        return counts
    coarse = np.zeros_like(counts)
    group = 1 << min(halvings, _EXPONENT_OF_SPAN)
    coarse[: BINS // group] = counts.reshape(-1, group).sum(axis=1)
    return coarse
