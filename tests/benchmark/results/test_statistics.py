from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm, t, ttest_1samp, ttest_ind, ttest_rel

from quantkit.benchmark.results.results import Cell, Ticks
from quantkit.benchmark.results.statistics import (
    Metric,
    Ratio,
    finished,
    latencies,
    mean_latency,
    paired_ratio,
    ratio,
    throughput,
    work,
)
from tests.benchmark.cells import cell, closed_loop


def test_one_instance_is_requests_over_time() -> None:
    one = cell([[closed_loop([10, 10, 20])], [closed_loop([40])]], batch=8)
    assert throughput(one) == pytest.approx(8 * 4 / 0.080)
    assert finished(one) == 4


def test_units_are_exact() -> None:
    """Items per second and milliseconds, of numbers that floating point holds."""
    one = cell([[closed_loop([500, 1500])], [closed_loop([2000])]], batch=4)
    assert throughput(one) == 4 * 3 / 4
    assert latencies(one).tolist() == [500, 1500, 2000]
    assert mean_latency(one) == 4000 / 3


def test_a_request_belongs_to_the_window_that_it_ends_in() -> None:
    """Ends at 10, 20 and 30 ms; the window goes from 10 ms, when the second instance begins, to 30 ms, when it ends."""
    two = cell([[closed_loop([10, 10, 10]), closed_loop([20], start_ms=10)]])
    assert finished(two) == 2 + 1


def test_the_common_window_cuts_what_hangs_over() -> None:
    # From 1 ms, when the second begins, to 30 ms, when the first has ended: 29 ms of 10 ms requests and of 15 ms ones.
    two = cell([[closed_loop([10, 10, 10]), closed_loop([15, 15], start_ms=1)]])
    assert throughput(two) == pytest.approx((29 / 10 + 29 / 15) / 0.029)
    assert finished(two) == 3 + 1


def test_a_request_outside_of_the_window_counts_for_nothing() -> None:
    assert work(Ticks((0, 10, 30), (1, 20, 31)), 5, 25) == 1


def test_rounds_that_are_all_alike_leave_no_doubt() -> None:
    one, other = (cell([[closed_loop([each] * 4)]] * 3) for each in (4, 8))
    assert ratio(one, other, "throughput") == Ratio(2.0, 2.0, 2.0)


def test_steady_instances_add_up() -> None:
    alone = [cell([[closed_loop([period] * 50)]]) for period in (7.0, 11.0)]
    together = cell([[closed_loop([7.0] * 50), closed_loop([11.0] * 50)]])
    assert throughput(together) == pytest.approx(sum(map(throughput, alone)))


def test_latencies_are_those_of_all_requests() -> None:
    two = cell([[closed_loop([1, 3]), closed_loop([10])], [closed_loop([2]), closed_loop([20])]])
    assert sorted(latencies(two)) == pytest.approx([1, 2, 3, 10, 20])
    # The mean over instances, however many requests each has served.
    assert mean_latency(two) == pytest.approx((2 + 15) / 2)


def noisy(random: np.random.Generator, speed: float, moods: np.ndarray, noise: float = 0.02) -> Cell:
    """Rounds of ten requests that share their round's mood."""
    return cell([[closed_loop(10 / speed * mood * random.lognormal(0, noise, 10))] for mood in moods])


_TRIALS = 500

# With very few rounds Welch's interval is known to be wider than it says; its width is held to SciPy's below.
_CASES = [
    ("throughput", True, 2, 2), ("throughput", True, 3, 3), ("throughput", True, 5, 5), ("throughput", True, 7, 7),
    ("throughput", True, 8, 8), ("throughput", True, 10, 10), ("latency", True, 5, 5), ("throughput", False, 5, 5),
    ("throughput", False, 7, 7), ("throughput", False, 8, 8), ("throughput", False, 10, 10),
    ("throughput", False, 3, 10), ("latency", False, 8, 8),
]  # fmt: skip


@pytest.mark.parametrize(("metric", "paired", "rounds", "others"), _CASES)
def test_the_interval_holds_the_truth_as_often_as_it_says(
    metric: Metric, paired: bool, rounds: int, others: int
) -> None:
    random = np.random.default_rng(rounds)
    held = 0
    for _ in range(_TRIALS):
        one = noisy(random, 1.5, random.lognormal(0, 0.1, rounds))
        other = noisy(random, 1.0, random.lognormal(0, 0.1, others))
        found = ratio(one, other, metric, paired)
        held += found.low <= 1.5 <= found.high
    # Between 93 and 97 %; a share at either end falls outside of these counts once in a thousand.
    assert binom.ppf(0.001, _TRIALS, 0.93) <= held <= binom.ppf(0.999, _TRIALS, 0.97)


def _half_width(found: Ratio) -> float:
    """Of the interval on the logarithm's scale."""
    return float(np.log(found.high / found.low) / 2)


@pytest.mark.parametrize("metric", ["throughput", "latency"])
@pytest.mark.parametrize(("rounds", "others"), [(2, 2), (3, 3), (5, 5), (7, 7), (3, 7), (2, 20)])
def test_few_rounds_have_the_width_of_scipys_t(metric: Metric, rounds: int, others: int) -> None:
    """Student's interval of the logarithms where the rounds are pairs, Welch's where they are not."""
    random = np.random.default_rng(rounds)
    moods = random.lognormal(0, 0.2, rounds), random.lognormal(0, 0.1, others)
    one, other = noisy(random, 1.5, moods[0]), noisy(random, 1.0, moods[1])
    logarithms = [np.log([throughput(replace(each, rounds=(turn,))) for turn in each.rounds]) for each in (one, other)]
    welch = ttest_ind(*logarithms, equal_var=False).confidence_interval(0.95)
    found = ratio(one, other, metric, paired=False)
    assert _half_width(found) == pytest.approx((welch.high - welch.low) / 2, rel=1e-6)
    assert found.value == pytest.approx(np.sqrt(found.low * found.high))
    if rounds == others:
        student = ttest_rel(*logarithms).confidence_interval(0.95)
        assert _half_width(ratio(one, other, metric)) == pytest.approx((student.high - student.low) / 2, rel=1e-6)


@pytest.mark.parametrize("rounds", [8, 12, 30])
def test_many_rounds_have_the_width_that_the_expansion_is_meant_to_give(rounds: int) -> None:
    """Hesterberg: of normal values the expanded percentile interval is as wide as Student's, the plain one is not."""
    widths = []
    for seed in range(12):
        random = np.random.default_rng(seed)
        speeds = 100 * (1 + 0.01 * random.normal(size=rounds))
        one = cell([[closed_loop([1e3 / speed] * 10)] for speed in speeds])
        even = cell([[closed_loop([10.0] * 10)]] * rounds)
        student = ttest_1samp(speeds / 100, 0).confidence_interval(0.95)
        found = ratio(one, even, "latency")
        widths.append((found.high - found.low) / (student.high - student.low))
    # Of 4,000 resamples an end is uncertain by some 2 % of the width, the mean of 12 by less; the plain interval is
    # narrower by 22 % at 8 rounds and by 6 % at 30.
    assert np.mean(widths) == pytest.approx(1, abs=0.03)


def test_rounds_of_unequal_length_count_by_their_time() -> None:
    """Ten requests of 10 ms, then ten of 100 ms: twenty in 1.1 s, not the mean of 100 and 10 in a second."""
    uneven = cell([[closed_loop([10] * 10)], [closed_loop([100] * 10)]], batch=4)
    assert throughput(uneven) == pytest.approx(4 * 20 / 1.1)
    even = cell([[closed_loop([10] * 10)]] * 2, batch=4)
    assert ratio(uneven, even, "throughput").value == pytest.approx((20 / 1.1) / 100)


def test_resamples_of_unequal_rounds_count_by_their_time() -> None:
    """Long rounds at half the speed, as many as short ones: no resample is without its time."""
    uneven = cell([[closed_loop([10] * 10)], [closed_loop([20] * 100)]] * 5)
    even = cell([[closed_loop([10] * 10)]] * 10)
    found = ratio(uneven, even, "throughput")
    random = np.random.default_rng(1)
    slow = random.binomial(10, 0.5, 200_000)
    simulated = ((10 - slow) * 10 + slow * 100) / ((10 - slow) * 10 + slow * 200)
    tail = norm.cdf(-np.sqrt(10 / 9) * t.ppf(0.975, 9))
    assert found.value == pytest.approx(55 / 105)
    # Few values are possible; those beside the quantile's own count.
    low, high = np.quantile(simulated, [tail, 1 - tail])
    assert found.low == pytest.approx(low, rel=0.002)
    assert found.high == pytest.approx(high, rel=0.02)


def test_mean_latency_counts_requests_alike_and_then_instances_alike() -> None:
    two = cell([[closed_loop([1]), closed_loop([10])], [closed_loop([5, 5, 5]), closed_loop([20])]])
    assert mean_latency(two) == pytest.approx((16 / 4 + 15) / 2)
    assert ratio(cell([[closed_loop([9.5])]] * 2), two, "latency").value == pytest.approx(1.0)


def test_pairs_cancel_the_moods_that_they_share() -> None:
    random = np.random.default_rng(0)
    moods = random.lognormal(0, 0.3, 10)
    one, other = noisy(random, 1.1, moods), noisy(random, 1.0, moods)
    paired, unpaired = ratio(one, other, "throughput"), ratio(one, other, "throughput", paired=False)
    assert paired.verdict == "faster" and paired.low == pytest.approx(1.1, rel=0.05)
    assert unpaired.verdict == "not distinguishable"


def test_what_was_not_measured_in_turns_is_not_paired() -> None:
    random = np.random.default_rng(0)
    moods = random.lognormal(0, 0.3, 10)
    one, other = noisy(random, 1.1, moods), noisy(random, 1.0, moods)
    later = replace(one, rounds=tuple(replace(turn, at=60.0) for turn in one.rounds))
    assert ratio(later, other, "latency") == ratio(one, other, "latency", paired=False)
    assert ratio(later, other, "latency") != ratio(one, other, "latency")


def test_verdicts() -> None:
    random = np.random.default_rng(1)
    moods = np.ones(8)
    one = noisy(random, 1.0, moods)
    assert ratio(noisy(random, 2.0, moods), one, "latency").verdict == "faster"
    assert ratio(noisy(random, 0.5, moods), one, "latency").verdict == "slower"
    assert ratio(noisy(random, 1.0, moods), one, "latency").verdict == "not distinguishable"


def test_one_round_says_nothing_about_the_next() -> None:
    found = ratio(cell([[closed_loop([1.0])]]), cell([[closed_loop([3.0])]]), "latency")
    assert found.value == pytest.approx(3.0)
    assert (found.low, found.high, found.verdict) == (0.0, float("inf"), "not distinguishable")


def test_batch_counts_for_throughput_and_not_for_latency() -> None:
    one, other = (cell([[closed_loop([5.0, 5.0])]] * 3, batch=batch) for batch in (4, 1))
    assert ratio(one, other, "throughput").value == pytest.approx(4.0)
    assert ratio(one, other, "latency").value == pytest.approx(1.0)


def test_a_ratio_of_speeds_of_the_same_rounds_is_students() -> None:
    from scipy.stats import t

    moods, noise = np.array([1.0, 5.0, 0.2, 3.0]), np.array([0.99, 1.0, 1.02, 1.0])
    found = paired_ratio(150 * moods * noise, 100 * moods)
    logarithms = np.log(1.5 * noise)
    half = t.ppf(0.975, 3) * logarithms.std(ddof=1) / 2
    expected = logarithms.mean() + np.array([0, -half, half])
    np.testing.assert_allclose(np.log([found.value, found.low, found.high]), expected)
    assert (paired_ratio([3.0], [2.0]).value, paired_ratio([3.0], [2.0]).high) == (pytest.approx(1.5), float("inf"))
