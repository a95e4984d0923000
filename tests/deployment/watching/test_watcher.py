"""Which batches a watcher looks at, and what it writes of them."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

import numpy as np
import pytest

from quantkit.deployment.watching import watcher as module
from quantkit.deployment.watching.drift_watch import DriftWatch
from quantkit.deployment.watching.event_log import EventLog
from quantkit.deployment.watching.events import Started
from quantkit.deployment.watching.history import read_events
from quantkit.deployment.watching.watcher import Watcher
from quantkit.drift.reference import reference_of
from quantkit.drift.signals import SignalMaker

MAKER = SignalMaker()
RANDOM = np.random.default_rng(0)
TIME = "2026-01-02T03:04:05+00:00"


def batch(shift: float = 0.0, size: int = 8) -> np.ndarray:
    return RANDOM.normal(shift, 1.0, (size, 3, 8, 8)).astype(np.float32)


def drift() -> DriftWatch:
    parts = [{**MAKER.of_input(batch(size=64)), **MAKER.of_outputs([batch(size=64)])}]
    return DriftWatch(reference_of(parts))


class Clock:
    """Time that passes when it is told to, and a little at each look."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def watch(watcher: Watcher, shift: float = 0.0) -> None:
    given, outputs = batch(shift), [batch()]
    pending = watcher.begin(given, None)
    rows = watcher.end(pending, outputs)
    assert not rows
    assert watcher.answered(pending, outputs, rows, None) is outputs


def test_its_share_of_the_time_is_kept(clock: Clock) -> None:
    watcher = Watcher("net", MAKER, drift(), 0.01, None, None)
    begun = clock.now
    for _ in range(5000):
        watch(watcher)
        clock.now += 0.005
    status = watcher.status()
    assert status.seen == 8 * 5000
    # Of the clock, a watched sample takes 2 ms, and as much again twice of what runs next.
    assert status.watched * 0.006 / (clock.now - begun) == pytest.approx(0.01, rel=0.2)


def test_a_long_delay_does_not_stop_it_for_long(clock: Clock) -> None:
    watcher = Watcher("net", MAKER, drift(), 0.01, None, None)
    pending = watcher.begin(batch(), None)
    watcher._cost += 3600.0
    watcher.end(pending, [batch()])
    clock.now += 61.0
    watch(watcher)
    assert watcher.status().watched == 2


def test_one_sample_of_each_batch_is_watched_where_all_the_time_is_given(clock: Clock) -> None:
    watcher = Watcher("net", MAKER, drift(), 1.0, None, None)
    for _ in range(10):
        watch(watcher)
    assert (watcher.status().watched, watcher.status().seen) == (10, 80)
    # Of any place.
    assert len({watcher.begin(batch(), None).watched for _ in range(200)}) == 8


def test_figures_are_written_once_a_minute_and_at_the_end(clock: Clock, events: Path) -> None:
    log = EventLog(events, Started(TIME, "net", "0" * 64, "mxnet", 64, {}))
    watcher = Watcher("net", MAKER, drift(), 1.0, None, log)
    for _ in range(100):
        watch(watcher)
        clock.now += 3
    watcher.close()
    watcher.close()
    (run,) = read_events(events).runs
    assert run.ended
    assert len(run.figures) == 5
    assert (run.last.seen, run.last.watched) == (800, 100)


def test_what_comes_after_closing_is_not_watched(events: Path) -> None:
    watcher = Watcher("net", MAKER, drift(), 1.0, None, None)
    watch(watcher)
    watcher.close()
    watch(watcher)
    assert (watcher.status().seen, watcher.status().watched) == (8, 1)


def test_a_fork_leaves_the_events_to_its_parent(events: Path) -> None:
    log = EventLog(events, Started(TIME, "net", "0" * 64, "mxnet", 64, {}))
    watcher = Watcher("net", MAKER, drift(), 1.0, None, log)
    with watcher._lock:
        child = os.fork()
        if not child:
            watcher.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    watch(watcher)
    watcher.close()
    (run,) = read_events(events).runs
    assert run.last.seen == 8


def test_what_drifts_is_in_the_log_and_among_the_events(events: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog(events, Started(TIME, "net", "0" * 64, "mxnet", 64, {}))
    watcher = Watcher("net", MAKER, drift(), 1.0, None, log)
    with caplog.at_level(logging.WARNING):
        for _ in range(16):
            watch(watcher, 5.0)
        watcher.close()
    assert set(watcher.status().drifting) == {"input.mean"}
    logged = re.search(r"input.mean drifts: mean (\S+), distance 1.00, 16 samples", caplog.text)
    # The mean of 16 samples of 192 numbers has a standard error of 0.02.
    assert logged and float(logged[1]) == pytest.approx(5.0, abs=0.2)
    assert set(read_events(events).runs[0].drifting) == {"input.mean"}
