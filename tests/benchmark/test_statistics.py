from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from quantkit.benchmark.results import Cell
from quantkit.benchmark.statistics import (
    Metric,
    finished,
    latencies,
    mean_latency,
    ratio,
    throughput,
)
from tests.benchmark.cells import cell, closed_loop


def test_one_instance_is_requests_over_time() -> None:
    one = cell([[closed_loop([10, 10, 20])], [closed_loop([40])]], batch=8)
    assert throughput(one) == pytest.approx(8 * 4 / 0.080)
    assert finished(one) == 4


def test_the_common_window_cuts_what_hangs_over() -> None:
    # From 1 ms, when the second begins, to 30 ms, when the first has ended: 29 ms of 10 ms requests and of 15 ms ones.
    two = cell([[closed_loop([10, 10, 10]), closed_loop([15, 15], start_ms=1)]])
    assert throughput(two) == pytest.approx((29 / 10 + 29 / 15) / 0.029)
    assert finished(two) == 3 + 1


def test_steady_instances_add_up() -> None:
    alone = [cell([[closed_loop([period] * 50)]]) for period in (7.0, 11.0)]
    together = cell([[closed_loop([7.0] * 50), closed_loop([11.0] * 50)]])
    assert throughput(together) == pytest.approx(sum(map(throughput, alone)))


def test_latencies_are_those_of_all_requests() -> None:
    two = cell([[closed_loop([1, 3]), closed_loop([10])], [closed_loop([2]), closed_loop([20])]])
    assert sorted(latencies(two)) == pytest.approx([1, 2, 3, 10, 20])
    # The mean over instances, however many requests each has served.
    assert mean_latency(two) == pytest.approx((2 + 15) / 2)


_TRIALS = 200


def noisy(random: np.random.Generator, speed: float, moods: np.ndarray, noise: float = 0.02) -> Cell:
    """Rounds of ten requests that share their round's mood."""
    return cell([[closed_loop(10 / speed * mood * random.lognormal(0, noise, 10))] for mood in moods])


@pytest.mark.parametrize("metric", ["throughput", "latency"])
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(("rounds", "others"), [(2, 2), (3, 3), (5, 5), (7, 7), (8, 8), (10, 10), (3, 10)])
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
    # What 95 % can come to by chance: a right interval falls below this once in a thousand.
    assert held >= binom.ppf(0.001, _TRIALS, 0.95)


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
