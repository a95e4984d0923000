"""The search for the highest rate, over a queue whose p99 is known as a formula, and over LoadGen itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quantkit.benchmark import server
from quantkit.benchmark.loadgen import Observed
from quantkit.benchmark.results import ServerTrial
from quantkit.benchmark.server import ClosedLoop, closed_loop, described, search_rate
from quantkit.errors import InstanceError
from tests.benchmark.test_loadgen import needs_loadgen, sleeping, theory

SERVICE = 10.0
CAPACITY = 1e3 / SERVICE


def p99(rate: float) -> float:
    return 1e3 * theory(99, rate, SERVICE / 1e3)


class Runs:
    """Stands in for LoadGen: the p99 of each run is a function of its rate and its number of seconds."""

    def __init__(self, latency: Callable[[float, float], float]) -> None:
        self._latency = latency
        self.calls: list[tuple[float, float, int, Path]] = []

    def __call__(self, serve: Any, rate: float, bound: float, seconds: float, seed: int, folder: Path) -> Observed:
        self.calls.append((rate, seconds, seed, folder))
        value = self._latency(rate, seconds)
        return Observed(ServerTrial(rate, 100, value / 2, value, value, False, ("too short",)), (value,))


def found(
    monkeypatch: pytest.MonkeyPatch, latency: Callable[[float, float], float], bound: float, shortest: float = SERVICE
) -> tuple[Any, Runs]:
    runs = Runs(latency)
    monkeypatch.setattr(server, "check_loadgen", lambda: None)
    monkeypatch.setattr(server, "run_trial", runs)
    monkeypatch.setattr(server, "closed_loop", lambda *_: ClosedLoop(CAPACITY, shortest))
    return search_rate([lambda: None], bound, 10.0, 5, Path("logs")), runs


@pytest.mark.parametrize("share", [0.02, 0.1, 0.4, 0.6, 0.8])
def test_the_highest_rate_is_found(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    bound = p99(share * CAPACITY)
    result, runs = found(monkeypatch, lambda rate, _: p99(rate), bound)
    assert result.bound == bound
    assert share * CAPACITY / 1.05 <= result.rate <= share * CAPACITY * (1 + 1e-9)
    assert len(runs.calls) < 14
    assert [trial.rate for trial in result.trials] == [rate for rate, *_ in runs.calls]


def test_what_was_found_is_confirmed_longer_with_other_arrivals(monkeypatch: pytest.MonkeyPatch) -> None:
    result, runs = found(monkeypatch, lambda rate, _: p99(rate), 30)
    assert runs.calls[-1][:3] == (result.rate, 30.0, 6)
    assert {(seconds, seed) for _, seconds, seed, _ in runs.calls[:-1]} == {(10.0, 5)}
    assert len({folder for *_, folder in runs.calls}) == len(runs.calls)


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


def test_runs_in_words() -> None:
    trial = ServerTrial(50.0, 500, 10.0, 15.0, 20.0, False, ("too short",))
    (line,) = described(Observed(trial, (19.5,) * 500))
    assert line == "50 requests/s: p99 20 ms over 500 requests, LoadGen: INVALID"
    _, warning = described(Observed(trial, (15.0,) * 500))
    assert "20 ms" in warning and "15 ms" in warning and "late" in warning


@pytest.mark.parametrize("instances", [1, 3])
def test_without_pause(instances: int) -> None:
    result = closed_loop([lambda: sleeping(0.02)] * instances, 0.5)
    assert 0.6 * instances / 0.02 < result.rate <= instances / 0.02
    assert 20 <= result.shortest < 30


def test_without_pause_each_instance_serves_at_least_once() -> None:
    served = []
    result = closed_loop([lambda: served.append(sleeping(0.1))], 0.01)
    assert len(served) == 1
    assert result.rate == pytest.approx(10, rel=0.3)


def test_an_instance_that_fails_without_pause_is_reported() -> None:
    def fail() -> None:
        raise InstanceError("crashed", "process 1 ended with exit code 3")

    begun = time.monotonic()
    with pytest.raises(InstanceError, match="exit code 3"):
        closed_loop([lambda: sleeping(0.01), fail], 30)
    assert time.monotonic() - begun < 5


@needs_loadgen
def test_the_search_over_loadgen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_CLOSED_LOOP_SECONDS", 0.5)
    monkeypatch.setattr(server, "_PRECISION", 1.3)
    told: list[str] = []
    result = search_rate([lambda: sleeping(SERVICE / 1e3)], 40.0, 1.0, 0, tmp_path, told.append)
    # The theory allows half of the capacity; short runs make it less or more, a busy machine less.
    assert p99(0.45 * CAPACITY) < 40 < p99(0.5 * CAPACITY)
    assert 0.1 * CAPACITY < result.rate < 0.8 * CAPACITY
    assert result.trials[-1].rate == result.rate and result.trials[-1].p99 <= 40
    assert len(list(tmp_path.glob("trial-*/mlperf_log_summary.txt"))) == len(result.trials)
    assert told[0].startswith("without pause: ")
    assert sum("LoadGen: " in line for line in told) == len(result.trials)
