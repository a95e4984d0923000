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
    """Sums over pairs of arrays, in float64, which do not depend on the order of the pairs."""

    def __init__(self) -> None:
        """Start with no values."""
        self._sums: list[np.ndarray] = []

    def add(self, exact: np.ndarray, actual: np.ndarray) -> None:
        """Add exact and actual values of one shape."""
        x, q = np.ravel(exact).astype(np.float64), np.ravel(actual).astype(np.float64)
        signal, power, product = _dot(x, x), _dot(q, q), _dot(x, q)
        x -= q
        self._sums.append(np.array([[signal, power, product, _dot(x, x)]]))

    @property
    def state(self) -> np.ndarray:
        """The sums of each pair, float64 of shape (pairs, 4)."""
        return np.concatenate([np.empty((0, 4)), *self._sums])

    def merge(self, state: np.ndarray) -> None:
        """Add the ``state`` of others."""
        self._sums.append(state)

    def restore(self, state: np.ndarray) -> None:
        """Take over the ``state`` of others, one after the other, in place of the own."""
        self._sums = [state]

    def result(self) -> Deviation:
        """The signal-to-quantization-noise ratio 10 log10(E[x^2] / E[(x - q)^2]), and the cosine.

        The ratio is that of Lin et al., "Fixed point quantization of deep convolutional networks" (ICML 2016),
        section 3. It is minus infinity if all exact values are 0 and an actual one is not.
        """
        signal, power, product, noise = map(math.fsum, self.state.T)
        if not noise:
            return Deviation(math.inf, 1.0)
        if not signal:
            return Deviation(-math.inf, 0.0)
        norms = math.sqrt(signal) * math.sqrt(power)
        return Deviation(10 * math.log10(signal / noise), product / norms if norms else 0.0)


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    # A product by BLAS depends on the number of its threads.
    return float(np.einsum("i,i->", a, b))
