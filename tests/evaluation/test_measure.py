"""Intervals of scores and of what a network loses."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.evaluation.measure import Measure, Score, over_groups, score, score_drop


def mean_of(values: np.ndarray) -> Measure:
    return Measure("mean", len(values), lambda weights: float(weights @ values / weights.sum()))


def test_the_interval_of_a_mean_is_that_of_statistics() -> None:
    values = np.random.default_rng(3).normal(0.5, 0.1, 400)
    measured = score(mean_of(values))
    assert measured == score(mean_of(values)) and measured.value == pytest.approx(values.mean())
    assert measured.low is not None and measured.high is not None
    half = 1.96 * values.std() / 20
    assert measured.low == pytest.approx(values.mean() - half, abs=half / 10)
    assert measured.high == pytest.approx(values.mean() + half, abs=half / 10)


def test_groups_are_drawn_as_a_whole() -> None:
    values = np.random.default_rng(3).normal(0.5, 0.1, 400)
    twice = mean_of(np.repeat(values, 2))
    (grouped,) = over_groups([twice], np.repeat(np.arange(400)[::-1] * 9, 2).tolist())
    apart, together, single = (score(each) for each in (twice, grouped, mean_of(values)))
    for one, other in ((together.value, single.value), (together.low, single.low), (together.high, single.high)):
        assert one == pytest.approx(other, rel=0.01)
    assert apart.low is not None and together.low is not None
    assert (values.mean() - together.low) / (values.mean() - apart.low) == pytest.approx(2**0.5, rel=0.1)
    assert over_groups([twice], None) == (twice,)


def test_losses_are_paired() -> None:
    random = np.random.default_rng(4)
    hard = random.normal(0.5, 0.2, 200)
    drop = score_drop(mean_of(hard - 0.01 + random.normal(0, 0.001, 200)), mean_of(hard))
    assert drop.points == pytest.approx(1.0, abs=0.02) and drop.verdict == "behind"
    assert drop.low is not None and drop.high is not None and drop.high - drop.low < 0.1
    assert score_drop(mean_of(hard), mean_of(hard - 0.01)).verdict == "ahead"
    assert score_drop(mean_of(hard), mean_of(hard)).verdict == "not distinguishable"


def test_resamples_in_which_nothing_can_be_scored_are_left_out() -> None:
    values = np.array([0.25, 0.75])

    def weighted(weights: np.ndarray) -> float:
        return float(weights @ values / 2) if weights[0] else float("nan")

    measured = score(Measure("m", 2, weighted))
    assert measured.value == 0.5 and measured.low == 0.25 and measured.high == 0.5


def test_nothing_to_score_is_none() -> None:
    nothing = Measure("m", 3, lambda weights: float("nan"))
    assert score(nothing) == Score("m", None, None, None)
    assert score_drop(nothing, nothing).verdict == "not distinguishable"
