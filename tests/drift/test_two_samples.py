"""The test of Kolmogorov and Smirnov against SciPy's, and its level on numbers of one distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

from quantkit.drift.two_samples import chance, distance, least_distance

SIZES = [(8, 16), (16, 16), (64, 16), (100, 64), (100, 256), (37, 5)]


@pytest.mark.parametrize(("first", "second"), SIZES)
def test_distance_and_chance_are_those_of_scipy(first: int, second: int) -> None:
    random = np.random.default_rng(first)
    for shift in (0.0, 0.3, 1.0, 5.0):
        one, other = random.normal(size=first), random.normal(shift, 1.5, second)
        exact = ks_2samp(one, other, method="exact")
        assert distance(one, other) == distance(other, one) == pytest.approx(exact.statistic, abs=1e-12)
        # The bound may be wide, but not too narrow; its constant is not quite 2 where both samples are small.
        assert exact.pvalue <= 1.09 * chance(exact.statistic, first, second)


def test_ties_are_no_distance() -> None:
    assert distance(np.zeros(9), np.zeros(4)) == 0.0
    assert distance(np.array([0.0, 1.0]), np.array([0.0, 0.0, 1.0, 1.0])) == 0.0
    assert distance(np.zeros(9), np.ones(4)) == 1.0


def test_small_differences_do_not_count() -> None:
    one, other = np.zeros(9), np.full(4, 1e-9)
    assert distance(one, other) == distance(other, one) == 1.0
    assert distance(one, other, 1e-6) == distance(other, one, 1e-6) == 0.0
    random = np.random.default_rng(0)
    for _ in range(50):
        first, second = random.normal(size=30), random.normal(0.5, 1, 40)
        # By definition, at every value at which a function rises.
        rises = np.concatenate([first, second, first - 0.1, second - 0.1])
        above = [np.mean(a <= x) - np.mean(b <= x + 0.1) for a, b in ((first, second), (second, first)) for x in rises]
        assert distance(first, second, 0.1) == pytest.approx(max(above))
        assert distance(first, second, 0.1) <= distance(first, second)


@pytest.mark.parametrize(("first", "second"), SIZES)
def test_numbers_of_one_distribution_are_told_apart_no_more_often_than_said(first: int, second: int) -> None:
    random, level, draws = np.random.default_rng(1), 0.05, 2000
    told = sum(
        chance(distance(random.normal(size=first), random.normal(size=second)), first, second) < level
        for _ in range(draws)
    )
    # Four standard deviations above the level.
    assert told / draws < level + 4 * np.sqrt(level * (1 - level) / draws)


def test_the_least_distance_has_the_level_as_its_chance() -> None:
    for level in (0.05, 1e-6):
        assert chance(least_distance(level, 100, 64), 100, 64) == pytest.approx(level)
    assert least_distance(1e-6, 4, 1_000_000) > 1
