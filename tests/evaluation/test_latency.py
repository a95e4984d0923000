from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from quantkit.evaluation.latency import median_difference


def test_the_difference_is_that_of_pairs() -> None:
    moods = np.random.default_rng(0).uniform(1, 9, 99)
    assert median_difference(moods, moods + 0.25) == (pytest.approx(0.25), pytest.approx(0, abs=1e-12))


@pytest.mark.parametrize("count", [9, 25, 200])
def test_the_interval_covers_the_median(count: int) -> None:
    random = np.random.default_rng(count)
    covered = []
    for _ in range(800):
        first = random.uniform(1, 9, count)
        found, half = median_difference(first, first + random.exponential(1, count))
        covered.append(abs(found - np.log(2)) <= 1.6 * half)
    assert np.mean(covered) > 0.93


def test_the_width_is_between_the_order_statistics_of_the_sign_test() -> None:
    values = np.arange(1000.0)
    _, half = median_difference(np.zeros(1000), values)
    low, high = binom.interval(0.95, 1000, 0.5)
    assert half == pytest.approx((high - low) / 2, abs=1)


def test_few_runs_give_their_whole_range() -> None:
    assert median_difference(np.zeros(3), np.array([1.0, 5.0, 2.0])) == (2.0, 2.0)
