from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest, bootstrap, norm

from quantkit.evaluation.drop import measure_drop, measure_rise


def drawn(images: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Classes of two networks, wrong for 30 % and 35 % of the images and mostly for the same ones, and labels."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, images)
    first = np.where(random.random(images) < 0.3, (labels + 1) % 10, labels)
    lost, won = random.random(images) < 0.10, random.random(images) < 0.07
    second = np.where((first == labels) & lost, (labels + 2) % 10, np.where((first != labels) & won, labels, first))
    return first, second, labels


def test_points_against_counting() -> None:
    first, second, labels = drawn(500)
    drop = measure_drop(first, second, labels)
    right = [sum(a == b for a, b in zip(each.tolist(), labels.tolist())) for each in (first, second)]
    assert (drop.images, drop.measure) == (500, "top-1")
    assert (drop.reference, drop.other) == (right[0] / 500, right[1] / 500)
    assert drop.loss == pytest.approx((right[0] - right[1]) / 5)


def test_the_interval_is_the_bootstrap_s_where_that_is_right() -> None:
    first, second, labels = drawn(4000)
    drop = measure_drop(first, second, labels)
    differences = 100.0 * ((first == labels).astype(float) - (second == labels))
    other = bootstrap((differences,), np.mean, method="percentile", random_state=0).confidence_interval
    assert drop.low == pytest.approx(other.low, abs=0.1)
    assert drop.high == pytest.approx(other.high, abs=0.1)


def test_a_large_drop_has_the_narrower_interval_of_a_share_far_from_nothing() -> None:
    """Where every second image is lost and none won, what is lost is a share, whose interval SciPy knows."""
    labels = np.zeros(4000, int)
    drop = measure_drop(labels, np.arange(4000) % 2, labels)
    share = binomtest(2000, 4000).proportion_ci(0.95, method="wilson")
    assert drop.high - drop.low == pytest.approx(100 * (share.high - share.low), rel=0.01)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    truth = 100 * (0.7 * 0.10 - 0.3 * 0.07)
    drops = [measure_drop(*drawn(150, seed)) for seed in range(1000)]
    covered = np.mean([drop.low <= truth <= drop.high for drop in drops])
    # Three standard deviations of the share of a thousand.
    assert 0.93 < covered < 0.98


def test_no_change_is_no_proof_of_no_drop() -> None:
    labels = np.zeros(100, int)
    for given in (labels, None):
        drop = measure_drop(labels, labels, given)
        assert drop.loss == 0
        assert drop.high > 1


def test_without_labels_what_changed_counts() -> None:
    reference = np.arange(200) % 10
    other = np.where(np.arange(200) < 6, 11, reference)
    drop = measure_drop(reference, other, None)
    assert (drop.measure, drop.reference, drop.other, drop.loss) == ("agreement", 1.0, 0.97, 3.0)
    # By definition: with either bound as the truth, so few or so many changes have a chance of 2.5 %.
    assert binom.sf(5, 200, drop.low / 100) == pytest.approx(0.025)
    assert binom.cdf(6, 200, drop.high / 100) == pytest.approx(0.025)


def adjusted_wald(images: int, lost: int, won: int) -> tuple[float, float]:
    """Of Bonett and Price (2012), equation 4: one is added to both counts of changes, two to the images."""
    first, second, total = (lost + 1) / (images + 2), (won + 1) / (images + 2), images + 2
    half = norm.ppf(0.975) * np.sqrt((first + second - (first - second) ** 2) / total)
    return 100 * max(first - second - half, -1), 100 * min(first - second + half, 1)


@pytest.mark.parametrize(
    ("images", "lost", "won"),
    [(10, 0, 0), (10, 3, 1), (10, 0, 4), (1, 1, 0), (1, 0, 1), (2, 2, 0), (2, 0, 2), (90, 50, 2)],
)
def test_few_images(images: int, lost: int, won: int) -> None:
    labels = np.zeros(images, int)
    first, second = labels.copy(), labels.copy()
    second[:lost] = 1
    first[lost : lost + won] = 1
    drop = measure_drop(first, second, labels)
    assert drop.loss == pytest.approx(100 * (lost - won) / images)
    assert (drop.low, drop.high) == pytest.approx(adjusted_wald(images, lost, won))
    assert (drop.reference, drop.other) == (1 - won / images, 1 - lost / images)


def test_both_wrong_in_different_ways_is_no_change_with_labels() -> None:
    labels = np.zeros(4, int)
    drop = measure_drop(np.array([0, 1, 1, 0]), np.array([0, 2, 1, 0]), labels)
    assert (drop.images, drop.loss, drop.reference, drop.other) == (4, 0, 0.5, 0.5)
    assert measure_drop(np.array([0, 1, 1, 0]), np.array([0, 2, 1, 0]), None).loss == 25


def test_a_rise_of_perplexity_is_in_percent_of_the_reference_s() -> None:
    random = np.random.default_rng(0)
    reference = random.normal(1.5, 0.2, 50)
    drop = measure_rise(reference, reference + random.normal(0.02, 0.01, 50))
    assert (drop.images, drop.measure) == (50, "perplexity")
    assert drop.reference == pytest.approx(np.exp(reference.mean()))
    assert drop.loss == pytest.approx(100 * (drop.other / drop.reference - 1))
    assert 1 < drop.low < drop.loss < drop.high < 3
    assert measure_rise(reference, reference).loss == 0
