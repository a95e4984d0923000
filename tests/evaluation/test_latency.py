from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from quantkit.evaluation.latency import median_difference, paired_speed
from quantkit.quantization.speed import MedianInterval


def test_the_difference_is_that_of_pairs() -> None:
    moods = np.random.default_rng(0).uniform(1, 9, 99)
    assert median_difference(moods, moods + 0.25) == (pytest.approx(0.25), pytest.approx(0, abs=1e-12))


def test_the_interval_is_as_wide_the_other_way_round() -> None:
    random = np.random.default_rng(0)
    first, second = random.exponential(1, 25), random.exponential(2, 25)
    difference, half = median_difference(first, second)
    assert median_difference(second, first) == (pytest.approx(-difference), pytest.approx(half))


@pytest.mark.parametrize("count", [8, 9, 25, 200, 1000])
def test_the_interval_covers_the_median_in_95_of_100_cases(count: int) -> None:
    """However differences are spread, as many lie below their median as coins show heads; so ranks tell all."""
    _, half = median_difference(np.zeros(count), np.random.default_rng(count).permutation(count))
    low, high = (count - 1) / 2 - half, (count - 1) / 2 + half
    assert low == int(low)
    heads = binom(count, 0.5)
    covered = heads.cdf(high) - heads.cdf(low)
    # There is nothing between ranks: one more at each end covers so much more.
    assert covered == pytest.approx(0.95, abs=2 * heads.pmf(low))


def test_the_speed_is_the_ratio_of_paired_runs() -> None:
    moods = np.random.default_rng(0).uniform(1, 9, 99)
    speed = paired_speed(3 * moods, 2 * moods)
    assert (speed.median, speed.low, speed.high) == pytest.approx((1.5, 1.5, 1.5))
    assert paired_speed(np.array([2.0, 6.0, 4.0]), np.full(3, 2.0)) == MedianInterval(2.0, 1.0, 3.0)


def test_few_runs_give_their_whole_range() -> None:
    assert median_difference(np.zeros(3), np.array([1.0, 5.0, 2.0])) == (2.0, 2.0)
