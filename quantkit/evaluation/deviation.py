"""How far values deviate from a reference, summed batch by batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Deviation:
    """How far values deviate: ``sqnr`` in dB, infinite if nothing deviates; ``cosine`` of all values as one vector."""

    sqnr: float
    cosine: float


class DeviationSums:
    """Running sums over pairs of arrays, in float64."""

    def __init__(self) -> None:
        """Start with no values."""
        self._signal = self._noise = self._actual = self._product = 0.0

    def add(self, exact: np.ndarray, actual: np.ndarray) -> None:
        """Add exact and actual values of one shape."""
        x, q = np.ravel(exact).astype(np.float64), np.ravel(actual).astype(np.float64)
        self._signal += float(x @ x)
        self._actual += float(q @ q)
        self._product += float(x @ q)
        x -= q
        self._noise += float(x @ x)

    def result(self) -> Deviation:
        """The signal-to-quantization-noise ratio 10 log10(E[x^2] / E[(x - q)^2]), and the cosine.

        The ratio is that of Lin et al., "Fixed point quantization of deep convolutional networks" (ICML 2016),
        section 3. It is minus infinity if all exact values are 0 and an actual one is not.
        """
        if not self._noise:
            return Deviation(math.inf, 1.0)
        if not self._signal:
            return Deviation(-math.inf, 0.0)
        norms = math.sqrt(self._signal) * math.sqrt(self._actual)
        return Deviation(10 * math.log10(self._signal / self._noise), self._product / norms if norms else 0.0)
