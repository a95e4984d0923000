"""Whether two samples of numbers are of one distribution, by the test of Kolmogorov and Smirnov."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np


def distance(first: np.ndarray, second: np.ndarray, tolerance: float = 0.0) -> float:
    """The largest distance between the distribution functions of two samples, from 0 to 1; neither may be empty.

    Values that differ by no more than ``tolerance`` count as equal, which can make the distance smaller only: it is the
    larger of sup F(x) - G(x + tolerance) and sup G(x) - F(x + tolerance).
    """
    one, other = np.sort(first), np.sort(second)
    return max(_above(one, other, tolerance), _above(other, one, tolerance))


def _above(one: np.ndarray, other: np.ndarray, tolerance: float) -> float:
    """How far the first distribution function is above the second at most; it is largest where it has just risen."""
    own = np.searchsorted(one, one, side="right") / len(one)
    return float((own - np.searchsorted(other, one + tolerance, side="right") / len(other)).max())


def chance(distance: float, first: int, second: int) -> float:
    """An upper bound of the p-value of a distance between two samples of so many numbers.

    The bound 2 exp(-2 d^2 m n / (m + n)) of Massart's form of the inequality of Dvoretzky, Kiefer and Wolfowitz, which
    for two samples holds to within a factor of 1.09 (Wei and Dudley, "Two-sample Dvoretzky-Kiefer-Wolfowitz
    inequalities", Statistics and Probability Letters 82, 2012).
    """
    return min(1.0, 2 * exp(-2 * distance**2 * first * second / (first + second)))


def least_distance(level: float, first: int, second: int) -> float:
    """The critical distance at a level: that whose ``chance`` it is; above 1 if the test cannot reject."""
    return sqrt(log(2 / level) * (first + second) / (2 * first * second))
