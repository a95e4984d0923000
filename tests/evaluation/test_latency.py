from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from quantkit.evaluation.latency import median_difference, paired_speed, speed_against_fp32
from quantkit.quantization.speed import MedianInterval


def test_the_difference_is_that_of_pairs() -> None:
    moods = np.random.default_rng(0).uniform(1, 9, 99)
    assert median_difference(moods, moods + 0.25) == (pytest.approx(0.25), pytest.approx(0, abs=1e-12))


def test_the_interval_is_as_wide_the_other_way_round() -> None:
    random = np.random.default_rng(0)
    first, second = random.exponential(1, 25), random.exponential(2, 25)
    difference, half = median_difference(first, second)
    assert median_difference(second, first) == (pytest.approx(-difference), pytest.approx(half))


@pytest.mark.parametrize("count", [6, 7, 8, 9, 12, 25, 200, 1000])
def test_the_interval_covers_the_median_in_95_of_100_cases(count: int) -> None:
    """However differences are spread, as many lie below their median as coins show heads; so ranks tell all."""
    _, half = median_difference(np.zeros(count), np.random.default_rng(count).permutation(count))
    low, high = (count - 1) / 2 - half, (count - 1) / 2 + half
    assert low == int(low)
    heads = binom(count, 0.5)
    assert heads.cdf(high) - heads.cdf(low) >= 0.95
    # It is the narrowest: one rank less at each end covers too little.
    assert heads.cdf(high - 1) - heads.cdf(low + 1) < 0.95


def test_the_speed_is_the_ratio_of_paired_runs() -> None:
    moods = np.random.default_rng(0).uniform(1, 9, 99)
    speed = paired_speed(3 * moods, 2 * moods)
    assert (speed.median, speed.low, speed.high) == pytest.approx((1.5, 1.5, 1.5))
    assert paired_speed(np.array([2.0, 6.0, 4.0]), np.full(3, 2.0)) == MedianInterval(2.0, 1.0, 3.0)


@pytest.mark.parametrize(
    ("unfused", "fused", "against"),
    [(3.0, 1.5, ("fp32_fused", 1.5)), (2.0, 4.0, ("fp32", 2.0)), (1, 1, ("fp32_fused", 1))],
)
def test_the_faster_form_of_fp32_is_what_counts(unfused: float, fused: float, against: tuple[str, float]) -> None:
    times = {"fp32": np.full(9, unfused), "fp32_fused": np.full(9, fused)}
    form, speed = speed_against_fp32(times, np.ones(9))
    assert (form, speed) == (against[0], MedianInterval(against[1], against[1], against[1]))


def test_of_two_forms_that_are_alike_the_less_certain_counts() -> None:
    unsteady = np.array([1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 3.0])
    form, speed = speed_against_fp32({"fp32": unsteady, "fp32_fused": np.full(7, 2.0)}, np.ones(7))
    assert (form, speed.low) == ("fp32", 1.0)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_few_runs_give_their_whole_range(count: int) -> None:
    _, half = median_difference(np.zeros(count), np.arange(count, dtype=float))
    assert half == (count - 1) / 2
