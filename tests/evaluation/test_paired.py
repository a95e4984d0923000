from __future__ import annotations

import re
from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.stats import bootstrap

from quantkit.errors import DataError
from quantkit.evaluation.paired import Paired, PairedMeans, paired, paired_means


def compared(images: int, first_only: int, other_only: int) -> Paired:
    """Two networks of which each alone is right about so many images, and both about the rest."""
    first, other = np.ones(images, bool), np.ones(images, bool)
    other[:first_only] = False
    first[first_only : first_only + other_only] = False
    return paired(first, other)


@pytest.mark.parametrize(("won", "lost"), [(1, 0), (7, 2), (2, 7), (5, 5), (30, 12)])
def test_the_p_value_is_a_sum_of_binomials(won: int, lost: int) -> None:
    total = won + lost
    tail = sum(comb(total, count) for count in range(max(won, lost), total + 1)) / 2**total
    assert compared(100, won, lost).p_value == pytest.approx(min(1.0, 2 * tail))


def test_the_p_value_counts_every_way_to_split_the_images_as_unevenly() -> None:
    splits = [abs(2 * sum(split) - 9) for split in product((0, 1), repeat=9)]
    assert compared(50, 8, 1).p_value == pytest.approx(np.mean([split >= 7 for split in splits]))


def test_counts_and_difference() -> None:
    first = np.array([True, True, False, False, True])
    other = np.array([True, False, True, False, False])
    result = paired(first, other)
    assert (result.images, result.first_only, result.other_only) == (5, 2, 1)
    assert result.difference == pytest.approx(first.mean() - other.mean())


def test_the_interval_is_that_of_drawing_images() -> None:
    random = np.random.default_rng(3)
    first, other = random.random(300) < 0.9, random.random(300) < 0.8
    difference = first.astype(float) - other
    expected = bootstrap((difference,), np.mean, method="percentile", random_state=1).confidence_interval
    result = paired(first, other)
    # Both draw; an end is a whole number of images, and may lie one beside the other's.
    assert (result.low, result.high) == pytest.approx((expected.low, expected.high), abs=1.5 / 300)


def test_the_interval_holds_the_true_difference_as_often_as_it_says() -> None:
    random = np.random.default_rng(5)
    shares, images, trials = np.array([0.08, 0.05, 0.87]), 400, 400
    drawn = random.multinomial(images, shares, trials)
    intervals = [compared(images, won, lost) for won, lost, _ in drawn]
    held = sum(interval.low <= 0.03 <= interval.high for interval in intervals)
    # Four standard deviations of a binomial count about 95 %.
    assert abs(held / trials - 0.95) < 4 * np.sqrt(0.95 * 0.05 / trials)


def test_equal_networks_are_told_apart_as_rarely_as_the_test_says() -> None:
    random = np.random.default_rng(6)
    drawn = random.multinomial(500, [0.05, 0.05, 0.9], 400)
    apart = sum(compared(500, won, lost).verdict != "not distinguishable" for won, lost, _ in drawn)
    assert 0 < apart / 400 < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 400)


@pytest.mark.parametrize(
    ("won", "lost", "verdict"),
    [
        (0, 0, "not distinguishable"),
        (6, 0, "ahead"),
        (0, 6, "behind"),
        (5, 0, "not distinguishable"),
        # Probabilities of 4.98 % and 5.01 %.
        (42, 25, "ahead"),
        (22, 10, "not distinguishable"),
    ],
)
def test_verdicts(won: int, lost: int, verdict: str) -> None:
    assert compared(80, won, lost).verdict == verdict


def test_networks_that_are_right_about_the_same_images_do_not_differ() -> None:
    result = compared(40, 0, 0)
    assert (result.difference, result.low, result.high, result.p_value) == (0, 0, 0, 1)


@pytest.mark.parametrize(("first", "other"), [((0,), (0,)), ((3,), (4,)), ((3, 1), (3, 1)), ((1, 3), (1, 3))])
def test_images_must_belong_together(first: tuple[int, ...], other: tuple[int, ...]) -> None:
    shapes = re.escape(f"not arrays of {first} and {other}; run both over the same images")
    with pytest.raises(DataError, match=f"^one boolean an image is needed of both networks, {shapes}$"):
        paired(np.ones(first, bool), np.ones(other, bool))
    with pytest.raises(DataError, match=f"^one value an image is needed of both networks, {shapes}$"):
        paired_means(np.ones(first), np.ones(other))


def test_the_interval_of_a_mean_difference_is_scipys_bootstrap() -> None:
    random = np.random.default_rng(7)
    first, other = random.exponential(size=(2, 300))
    result = paired_means(first, other)
    wanted = bootstrap((first - other,), np.mean, method="percentile", n_resamples=20_000, random_state=1)
    assert result.difference == pytest.approx((first - other).mean())
    width = wanted.confidence_interval.high - wanted.confidence_interval.low
    np.testing.assert_allclose((result.low, result.high), wanted.confidence_interval, atol=0.05 * width)


@pytest.mark.parametrize(("shift", "verdict"), [(0.5, "ahead"), (-0.5, "behind"), (0.0, "not distinguishable")])
def test_verdicts_by_the_mean(shift: float, verdict: str) -> None:
    noise = np.random.default_rng(8).normal(size=400)
    noise -= noise.mean()
    assert paired_means(noise + shift, np.zeros(400)).verdict == verdict


def test_equal_means_are_told_apart_in_one_of_twenty() -> None:
    noise = np.random.default_rng(9).normal(size=(200, 100))
    apart = sum(paired_means(each, np.zeros(100)).verdict != "not distinguishable" for each in noise)
    assert 0 < apart / 200 < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 200)


def test_the_same_images_give_the_same_interval() -> None:
    random = np.random.default_rng(10)
    # So many that two draws would hardly have the same ends.
    first, other = random.random((2, 1_000_000)) < 0.8
    assert paired(first, other) == paired(first, other)
    first, other = random.random((2, 60))
    assert paired_means(first, other) == paired_means(first, other)


def test_one_image_has_no_width() -> None:
    result = paired_means(np.array([3.0]), np.array([1.0]))
    assert (result.difference, result.low, result.high, result.verdict) == (2.0, 2.0, 2.0, "ahead")
    assert paired(np.array([True]), np.array([False])).verdict == "not distinguishable"


def test_float32_values_are_compared_in_float64() -> None:
    result = paired_means(np.ones(9, np.float32), np.full(9, 2.0**-30, np.float32))
    assert result.difference == result.low == result.high == 1 - 2.0**-30


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.0, 1.0, "not distinguishable"),
        (-1.0, 0.0, "not distinguishable"),
        (0.5, 1.5, "ahead"),
        (-0.5, -0.1, "behind"),
    ],
)
def test_an_interval_that_holds_nothing_tells_nothing(low: float, high: float, verdict: str) -> None:
    assert PairedMeans((low + high) / 2, low, high).verdict == verdict


@pytest.mark.parametrize(
    ("difference", "p_value", "verdict"),
    [(0.1, 0.05, "not distinguishable"), (0.1, 0.0499, "ahead"), (-0.1, 0.0499, "behind")],
)
def test_five_per_cent_is_not_enough(difference: float, p_value: float, verdict: str) -> None:
    assert Paired(10, 3, 2, difference, 0.0, 0.2, p_value).verdict == verdict
