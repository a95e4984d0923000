"""Mse: the threshold with the smallest mean squared quantization error."""

from __future__ import annotations

from typing import Any

import numpy as np

from quantkit.calibration.clipping import ClippingObserver

_OCTAVES = 12
"""How far the search goes below the largest magnitude: down to 1/4096 of it, about one bin."""
_PER_OCTAVE = 4
_REFINED = 33


class Mse(ClippingObserver):
    """Cuts where rounding and clipping together cause the smallest squared error.

    ``squared_error`` integrates the error of a candidate over the histogram. The first candidates are
    a quarter of an octave apart; 33 more lie around the best of these.
    """

    def threshold(self) -> float:
        """The threshold with the smallest squared error; the largest of equal ones."""
        counts = self.histogram.magnitudes()
        largest = self.histogram.largest / self.histogram.width
        coarse = largest * 2.0 ** (-np.arange(_OCTAVES * _PER_OCTAVE + 1) / _PER_OCTAVE)
        best = _least(counts, coarse, self.levels)
        fine = best * 2.0 ** (np.linspace(1, -1, _REFINED) / _PER_OCTAVE)
        return _least(counts, np.minimum(fine, largest), self.levels) * self.histogram.width


def _least(counts: np.ndarray[Any, Any], thresholds: np.ndarray[Any, Any], levels: int) -> float:
    """The first of ``thresholds`` with the smallest squared error."""
    return float(min(thresholds, key=lambda threshold: squared_error(counts, float(threshold), levels)))


def squared_error(counts: np.ndarray[Any, Any], threshold: float, levels: int) -> float:
    """The summed squared error of quantizing a histogram of magnitudes, in units of squared bins.

    ``counts[i]`` values lie in [i, i + 1), assumed to be evenly spread. They are rounded to the
    nearest of the multiples 0 .. ``levels`` of the step s = ``threshold`` / ``levels``. With n the level
    nearest to x, the error integrated from 0 to x is n s^3 / 12 + (x - n s)^3 / 3: n whole cells of
    width s, then the part beyond the level.
    """
    edges = np.arange(counts.size + 1, dtype=np.float64)
    step = threshold / levels
    nearest = np.minimum(np.rint(edges / step), levels)
    beyond = edges - nearest * step
    integral = nearest * (step**3 / 12) + beyond * beyond * beyond / 3
    return float(np.diff(integral) @ counts)
