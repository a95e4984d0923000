"""Fisher's exact test against SciPy's."""

from __future__ import annotations

import pytest
from scipy.stats import fisher_exact

from quantkit.drift.shares import chance_of_fewer, most_fallen

CASES = [(100, 100, 60, 64), (99, 100, 16, 16), (5, 10, 0, 16), (0, 10, 0, 16), (98, 100, 900, 1024), (1, 1, 1, 1)]


@pytest.mark.parametrize(("before", "of_before", "now", "of_now"), CASES)
def test_the_chance_is_that_of_scipy(before: int, of_before: int, now: int, of_now: int) -> None:
    table = [[now, of_now - now], [before, of_before - before]]
    expected = fisher_exact(table, alternative="less").pvalue
    assert chance_of_fewer(before, of_before, now, of_now) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("before", "of_before", "of_now"), [(100, 100, 64), (95, 100, 1024), (60, 64, 256)])
def test_the_largest_share_that_is_told_is_the_last_that_is_rejected(before: int, of_before: int, of_now: int) -> None:
    most = most_fallen(1e-7, before, of_before, of_now)
    assert chance_of_fewer(before, of_before, most, of_now) < 1e-7
    assert chance_of_fewer(before, of_before, most + 1, of_now) >= 1e-7


def test_too_few_samples_tell_nothing() -> None:
    assert most_fallen(1e-7, 4, 4, 16) == -1
