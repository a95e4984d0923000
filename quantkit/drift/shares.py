"""Whether a share has fallen, by Fisher's exact test."""

from __future__ import annotations

from math import lgamma

import numpy as np

_LOG_FACTORIAL = np.vectorize(lambda number: lgamma(number + 1), otypes=[np.float64])


def chance_of_fewer(before: int, of_before: int, now: int, of_now: int) -> float:
    """The p-value of so few hits now, against the same share as before: Fisher's exact test, one-sided.

    The probability that of ``of_now`` samples, drawn without replacement from all together, at most ``now`` are among
    the hits (R. A. Fisher, Journal of the Royal Statistical Society 85, 1922).

    Args:
        before: hits, of ``of_before`` samples.
        of_before: 1 or more.
        now: hits, of ``of_now`` samples.
        of_now: 1 or more.
    """
    hits, misses = before + now, of_before + of_now - before - now
    fewer = np.arange(max(0, of_now - misses), now + 1)
    logarithms = _choices(hits, fewer) + _choices(misses, of_now - fewer) - _choices(hits + misses, np.array(of_now))
    return min(1.0, float(np.exp(logarithms).sum()))


def most_fallen(level: float, before: int, of_before: int, of_now: int) -> int:
    """The most hits of ``of_now`` samples that are told from the share before at a level; -1 if none are."""
    least, most = -1, of_now
    while least < most:
        middle = (least + most + 1) // 2
        if chance_of_fewer(before, of_before, middle, of_now) < level:
            least = middle
        else:
            most = middle - 1
    return least


def _choices(number: int, of: np.ndarray) -> np.ndarray:
    """The logarithms of binomial coefficients."""
    logarithms: np.ndarray = _LOG_FACTORIAL(number) - _LOG_FACTORIAL(of) - _LOG_FACTORIAL(number - of)
    return logarithms
