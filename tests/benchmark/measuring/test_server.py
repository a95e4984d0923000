"""The search for the highest rate, over a queue whose p99 is known as a formula, and over LoadGen itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest
from scipy.optimize import brentq

from quantkit.benchmark.measuring import dispatch, server
from quantkit.benchmark.measuring.loadgen import Observed
from quantkit.benchmark.measuring.server import (
    ClosedLoop,
    Served,
    Watch,
    closed_loop,
    described,
    disturbances,
    lateness,
    search_rate,
)
from quantkit.benchmark.results.cell_warnings import UNTOLD
from quantkit.benchmark.results.results import ServerTrial
from quantkit.errors import InstanceError
from quantkit.host.load import Load
from tests.benchmark.measuring.test_loadgen import needs_loadgen, sleeping, theory

SERVICE = 10.0
CAPACITY = 1e3 / SERVICE


def p99(rate: float) -> float:
    return 1e3 * theory(99, rate, SERVICE / 1e3)


class Runs:
    """Stands in for LoadGen: the p99 of each run is a function of its rate and its number of seconds.

    In the runs whose numbers are in ``late``, from 0, LoadGen records twice what our own clock says.
    """

    def __init__(self, latency: Callable[[float, float], float], late: Collection[int] = ()) -> None:
        self._latency = latency
        self._late = late
        self.calls: list[tuple[float, float, int, Path]] = []

    def __call__(self, serve: Any, rate: float, bound: float, seconds: float, seed: int, folder: Path) -> Observed:
        self.calls.append((rate, seconds, seed, folder))
        value = self._latency(rate, seconds)
        own = value / 2 if len(self.calls) - 1 in self._late else value
        return Observed(ServerTrial(rate, 100, value / 2, value, value, False, ("too short",)), (own,))


def watching(*loads: Optional[Load]) -> Watch:
    """Tells these loads one after the other, then that nothing else runs."""
    coming = iter(loads)
    return lambda: lambda: next(coming, Load(0.0, 0.0, 1.0))


def searched(
    monkeypatch: pytest.MonkeyPatch,
    runs: Runs,
    bound: float,
    shortest: float,
    watch: Watch,
    tell: Optional[Callable[[str], None]] = None,
) -> Served:
    monkeypatch.setattr(server, "check_loadgen", lambda: None)
    monkeypatch.setattr(server, "run_trial", runs)
    monkeypatch.setattr(server, "closed_loop", lambda *_: ClosedLoop(CAPACITY, (shortest,)))
    return search_rate([lambda: None], watch, bound, 10.0, 5, Path("logs"), tell or (lambda _: None))


def found(
    monkeypatch: pytest.MonkeyPatch, latency: Callable[[float, float], float], bound: float, shortest: float = SERVICE
) -> tuple[Any, Runs]:
    runs = Runs(latency)
    served = searched(monkeypatch, runs, bound, shortest, watching())
    assert served.warnings == ()
    return served.server, runs


@pytest.mark.parametrize("share", [0.02, 0.1, 0.4, 0.6, 0.8])
def test_the_highest_rate_is_found(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    bound = p99(share * CAPACITY)
    result, runs = found(monkeypatch, lambda rate, _: p99(rate), bound)
    assert result.bound == bound
    assert share * CAPACITY / 1.05 <= result.rate <= share * CAPACITY * (1 + 1e-9)
    assert len(runs.calls) < 14
    assert [trial.rate for trial in result.trials] == [rate for rate, *_ in runs.calls]


@pytest.mark.parametrize("share", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("seed", range(3))
def test_over_a_simulated_queue_the_rate_is_the_formulas(
    monkeypatch: pytest.MonkeyPatch, share: float, seed: int
) -> None:
    """Poisson arrivals at one server, counted instead of computed: the search survives what chance does to a run."""
    random = np.random.default_rng(seed)

    def simulated(rate: float, _: float) -> float:
        arrivals = np.cumsum(random.exponential(1e3 / rate, 40_000))
        work = SERVICE * np.arange(len(arrivals))
        done = work + np.maximum.accumulate(arrivals - work) + SERVICE
        return float(np.percentile(done - arrivals, 99))

    bound = p99(share * CAPACITY)
    result, _ = found(monkeypatch, simulated, bound)
    # Where a run's p99 may be by chance, by many runs at the rate in question.
    spread = 3 * float(np.std([simulated(share * CAPACITY, 0) for _ in range(20)]))

    def rate_of(latency: float) -> float:
        return float(brentq(lambda rate: p99(rate) - latency, 0.01 * CAPACITY, 0.99 * CAPACITY, rtol=1e-4))

    least, most = rate_of(bound - spread), rate_of(bound + spread)
    # The search's precision; and a rate that does not hold in the longer run gives way to nine tenths of it.
    assert 0.9 * least / 1.05 <= result.rate <= most


def test_what_was_found_is_confirmed_longer_with_other_arrivals(monkeypatch: pytest.MonkeyPatch) -> None:
    result, runs = found(monkeypatch, lambda rate, _: p99(rate), 30)
    assert runs.calls[-1][:3] == (result.rate, 30.0, 6)
    assert {(seconds, seed) for _, seconds, seed, _ in runs.calls[:-1]} == {(10.0, 5)}
    assert [folder for *_, folder in runs.calls] == [
        Path("logs") / f"trial-{number:02}" for number in range(1, len(runs.calls) + 1)
    ]


def test_less_is_tried_where_the_longer_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    result, runs = found(monkeypatch, lambda rate, seconds: p99(rate) * (1.3 if seconds > 10 else 1), 30)
    long = [rate for rate, seconds, *_ in runs.calls if seconds > 10]
    assert p99(result.rate) * 1.3 <= 30 < p99(long[-2]) * 1.3
    assert long[1] == pytest.approx(0.9 * long[0]) and result.rate > 0.6 * long[-2]
    assert result.trials[-1].rate == result.rate


def test_a_bound_below_the_time_of_one_request_is_given_up_after_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    result, runs = found(monkeypatch, lambda rate, _: p99(rate), SERVICE * 0.9)
    assert result.rate == 0.0
    assert len(result.trials) == len(runs.calls) == 1


def test_a_bound_of_just_the_time_of_one_request_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies exactly at the bound keeps it."""
    result, _ = found(monkeypatch, lambda rate, _: SERVICE if rate < CAPACITY / 9 else 2 * SERVICE, SERVICE)
    assert CAPACITY / 9 / 1.05 <= result.rate < CAPACITY / 9


def test_every_run_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(lambda rate, _: p99(rate))
    told: list[str] = []
    searched(monkeypatch, runs, 30.0, SERVICE, watching(), told.append)
    assert told[0] == f"without pause: {CAPACITY:.4g} requests/s, the shortest {SERVICE:.3g} ms"
    assert [line.split(":")[0] for line in told[1:]] == [f"{rate:.4g} requests/s" for rate, *_ in runs.calls]


def test_where_no_rate_holds_all_runs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    result, runs = found(monkeypatch, lambda *_: 1e6, 30)
    assert result.rate == 0.0
    assert min(rate for rate, *_ in runs.calls) == CAPACITY / 128
    assert len(result.trials) == len(runs.calls) == 7


def test_nothing_above_the_throughput_without_pause_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    result, runs = found(monkeypatch, lambda *_: 1.0, 30)
    assert CAPACITY / 1.05 <= result.rate < CAPACITY
    assert all(rate < CAPACITY for rate, *_ in runs.calls)


def test_long_runs_that_never_hold_come_to_an_end_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    result, runs = found(monkeypatch, lambda _, seconds: 1e6 if seconds > 10 else 1.0, 30)
    assert result.rate == 0.0
    assert 3 < sum(seconds > 10 for _, seconds, *_ in runs.calls) < 8


@pytest.mark.parametrize("late", [(1,), (1, 2, 3)])
def test_runs_in_which_loadgen_was_late_are_kept_as_a_warning(
    monkeypatch: pytest.MonkeyPatch, late: tuple[int, ...]
) -> None:
    runs = Runs(lambda rate, _: p99(rate), late)
    (warning,) = searched(monkeypatch, runs, 30.0, SERVICE, watching()).warnings
    rate = max(runs.calls[number][0] for number in late)
    assert f"late itself in {len(late)} of {len(runs.calls)} runs: at {rate:.4g} requests/s" in warning
    assert f"{p99(rate):.3g} ms where the instances and their queue took {p99(rate) / 2:.3g} ms" in warning


def observed(recorded: float, own: float) -> Observed:
    return Observed(ServerTrial(50.0, 100, 1.0, 1.0, recorded, True, ()), (own,))


def test_loadgen_may_be_a_tenth_and_half_a_millisecond_late() -> None:
    assert lateness([observed(22.4, 20), observed(0.5, 0), observed(10, 10)]) == ()
    assert len(lateness([observed(22.6, 20)])) == len(lateness([observed(0.6, 0)])) == 1


def test_the_run_in_which_loadgen_was_latest_is_told() -> None:
    runs = [observed(60, 50), observed(100, 50), observed(95, 10), observed(20, 1), observed(200, 200)]
    assert lateness(runs) == (
        "LoadGen was late itself in 4 of 5 runs: at 50 requests/s it records a p99 of 95 ms where the instances and "
        "their queue took 10 ms; leave it a core (--instances N --cores M) on a quiet machine",
    )


def test_disturbances_are_told_apart() -> None:
    loads = [Load(0.1, 0.03, 1.0), Load(0.3, 0.5, 1.0), None, Load(0.2, 0.01, 1.0)]
    assert disturbances(loads[:1]) == ()
    assert disturbances(loads) == (
        UNTOLD,
        "the hypervisor took up to 0.50 cores of processor time in 1 of 4 runs",
        "other processes used up to 0.30 cores on the same processors in 2 of 4 runs",
    )


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (Load(0.5, 0.0, 1.0), "other processes used up to 0.50 cores on the same processors in 1 of "),
        (Load(0.0, 0.25, 1.0), "the hypervisor took up to 0.25 cores of processor time in 1 of "),
    ],
)
@pytest.mark.parametrize("quiet", [0, 1, 4])
def test_one_disturbed_run_is_kept_as_a_warning(
    monkeypatch: pytest.MonkeyPatch, load: Load, words: str, quiet: int
) -> None:
    runs = Runs(lambda rate, _: p99(rate))
    watch = watching(*[Load(0.05, 0.01, 1.0)] * quiet, load)
    (warning,) = searched(monkeypatch, runs, 30.0, SERVICE, watch).warnings
    # The run without pause is one of them.
    assert warning == f"{words}{len(runs.calls) + 1} runs"


def test_runs_of_which_nobody_tells_what_others_did_are_kept_as_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(lambda rate, _: p99(rate))
    (warning,) = searched(monkeypatch, runs, 30.0, SERVICE, watching(Load(0.0, 0.0, 1.0), None)).warnings
    assert "does not tell whether others" in warning


def test_others_are_watched_during_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Told(Runs):
        def __call__(self, *arguments: Any) -> Observed:
            events.append("run")
            return super().__call__(*arguments)

    def watch() -> Callable[[], Load]:
        def others() -> Load:
            events.append("end")
            return Load(0.0, 0.0, 1.0)

        events.append("begin")
        return others

    runs = Told(lambda rate, _: p99(rate))
    searched(monkeypatch, runs, 30.0, SERVICE, watch)
    assert events == ["begin", "end", *["begin", "run", "end"] * len(runs.calls)]


MORE = "* Would need to run at least 171 more queries, with the run being successful if they are fast."


@pytest.mark.parametrize(
    ("bound", "why", "words"),
    [
        (25.0, (), "within 25 ms; LoadGen: VALID"),
        (
            25.0,
            ("Early stopping satisfied: NO", MORE),
            "within 25 ms; LoadGen: INVALID, it asks for 171 more requests to be sure",
        ),
        (
            15.0,
            ("Performance constraints satisfied : NO", "Early stopping satisfied: NO", MORE),
            "above 15 ms; LoadGen: INVALID, not satisfied: performance constraints, early stopping",
        ),
        (25.0, ("something new",), "within 25 ms; LoadGen: INVALID"),
        # Exactly at the bound.
        (20.0, (MORE,), "within 20 ms; LoadGen: INVALID, it asks for 171 more requests to be sure"),
    ],
)
def test_runs_in_words(bound: float, why: tuple[str, ...], words: str) -> None:
    trial = ServerTrial(50.0, 500, 10.0, 15.0, 20.0, not why, why)
    assert described(Observed(trial, (19.5,)), bound) == f"50 requests/s: p99 20 ms of 500 requests, {words}"


class Clock:
    """Stands still but while ``serve`` is called, which takes 1/64 s in all instances at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, instances: int) -> None:
        for module in (server, dispatch):
            monkeypatch.setattr(module, "time", self)
        self._now = 40.0
        self._barrier = threading.Barrier(instances, self._advance)
        self.served: list[float] = []

    def _advance(self) -> None:
        self._now += 1 / 64

    def serve(self) -> None:
        self._barrier.wait()
        self.served.append(self._now)

    def monotonic(self) -> float:
        return self._now

    def monotonic_ns(self) -> int:
        return int(self._now * 1e9)


@pytest.mark.parametrize("instances", [1, 3])
def test_without_pause(monkeypatch: pytest.MonkeyPatch, instances: int) -> None:
    clock = Clock(monkeypatch, instances)
    result = closed_loop([clock.serve] * instances, 0.5)
    assert len(clock.served) == 32 * instances
    assert result.rate == pytest.approx(64 * instances)
    assert result.latencies == pytest.approx([1e3 / 64] * 32 * instances) and result.shortest == pytest.approx(1e3 / 64)


def test_without_pause_each_instance_serves_at_least_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, 2)
    assert closed_loop([clock.serve] * 2, 0.0).rate == pytest.approx(128)
    assert len(clock.served) == 2


def test_an_instance_that_fails_without_pause_is_reported_at_once() -> None:
    def fail() -> None:
        raise InstanceError("crashed", "process 1 ended with exit code 3")

    with pytest.raises(InstanceError, match="exit code 3"):
        closed_loop([lambda: None, fail], 1e9)


@needs_loadgen
@pytest.mark.timing
def test_the_search_over_loadgen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_CLOSED_LOOP_SECONDS", 0.5)
    monkeypatch.setattr(server, "SEARCH_PRECISION", 1.3)
    told: list[str] = []
    serve = [lambda: sleeping(SERVICE / 1e3)]
    result = search_rate(serve, watching(), 40.0, 1.0, 0, tmp_path, told.append).server
    # The theory allows half of the capacity; short runs make it less or more, a busy machine less.
    assert p99(0.45 * CAPACITY) < 40 < p99(0.5 * CAPACITY)
    assert 0.02 * CAPACITY < result.rate < 0.8 * CAPACITY
    assert result.trials[-1].rate == result.rate and result.trials[-1].p99 <= 40
    assert len(list(tmp_path.glob("trial-*/mlperf_log_summary.txt"))) == len(result.trials)
    assert told[0].startswith("without pause: ")
    assert sum("LoadGen: " in line for line in told) == len(result.trials)
