"""Entropy: the threshold at which the quantized histogram diverges least from the observed one."""

from __future__ import annotations

from typing import Any

import numpy as np

from quantkit.calibration.clipping import ClippingObserver

_CANDIDATES = 512
_EMPTY_CELL = 0.5
"""The count of a cell that holds only clipped values: as if half a value had been seen in it."""

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]


class Entropy(ClippingObserver):
    """Cuts where the Kullback-Leibler divergence of the quantized from the clipped histogram is smallest.

    The search is that of Migacz, "8-bit inference with TensorRT" (GTC 2017). For a threshold after i
    bins, P is the first i bins of each side, with the counts of all bins beyond added to the last. Q
    divides the same bins, without the counts beyond, into ``levels`` cells and spreads the count of
    each cell evenly over those of its bins that are not empty in P. Zeros are left out: every
    threshold represents them exactly. The candidates are 512 values of i from ``levels`` to the last
    bin used.

    Unlike in the source, both P and Q are divided by the count of P, so Q lacks the clipped share. If
    each were divided by its own count, a threshold below all values would look perfect.
    """

    def threshold(self) -> float:
        """The threshold with the smallest divergence; the largest of equal ones."""
        histogram = self.histogram
        used = histogram.used
        if used <= self.levels:
            return histogram.largest
        ends = np.unique(np.linspace(used, self.levels, _CANDIDATES).astype(np.int64))[::-1]
        sides = [side[:used] for side in (histogram.positive, histogram.negative) if side.any()]
        best = ends[np.argmin(divergences(sides, ends, self.levels))]
        return float(best) * histogram.width


def divergences(sides: list[Integers], ends: Integers, levels: int) -> Floats:
    """The divergence KL(P || Q), in nats, for thresholds after each of ``ends`` bins.

    With p the counts of P and q those of Q, it is sum(p log(p / q)) / sum(p). Within a cell q is
    constant, so the sums over bins become differences of running sums at the edges of the cells.
    """
    edges = ends[:, None] * np.arange(levels + 1) // levels
    divergence = np.zeros(ends.size)
    for counts in sides:
        kept = _running(counts)
        inside = np.diff(kept[edges]).astype(np.float64)
        filled = np.diff(_running(counts > 0)[edges])
        beyond = (kept[-1] - kept[ends]).astype(np.float64)
        last = counts[ends - 1]
        filled[:, -1] += (beyond > 0) & (last == 0)
        logarithm = np.log(np.maximum(inside, _EMPTY_CELL) / np.maximum(filled, 1))
        inside[:, -1] += beyond
        cross = np.sum(inside * logarithm, axis=1)
        own = _running(_x_log_x(counts))[ends - 1] + _x_log_x(last + beyond)
        divergence += own - cross
    return divergence / sum(int(counts.sum()) for counts in sides)


def _running(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The sums of the first 0, 1, 2 ... ``values``."""
    return np.concatenate([[0], np.cumsum(values)])


def _x_log_x(values: np.ndarray[Any, Any]) -> Floats:
    """Each value times its logarithm; 0 for 0."""
    return np.asarray(values * np.log(np.maximum(values, 1)), np.float64)
