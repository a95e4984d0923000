"""Tick counters of /proc/stat."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from quantkit.host import load as host_load
from quantkit.host.load import Load, load_between, read_load, with_load_of_others

#        user nice system idle iowait irq softirq steal
START = (100, 0, 50, 1000, 10, 0, 0, 5)


def _later(user: int = 0, idle: int = 0, iowait: int = 0, steal: int = 0) -> tuple[int, ...]:
    return (START[0] + user, 0, 50, START[3] + idle, START[4] + iowait, 0, 0, START[7] + steal)


def test_busy_is_what_is_neither_idle_nor_waiting() -> None:
    before = {0: START, 1: START, 2: START, 3: START}
    after = {
        0: _later(user=25),
        1: _later(user=5, idle=15, iowait=5),
        2: _later(steal=10, idle=10),
        3: _later(user=25),
    }
    load = load_between(before, after, cpus=(0, 1, 2), seconds=0.25)
    assert load is not None
    assert load.busy == pytest.approx(1 + 0.2 + 0.5)
    assert load.stolen == pytest.approx(0.5)


def test_counters_that_stand_still_or_run_backwards() -> None:
    load = load_between({0: START, 1: START}, {0: START, 1: _later(user=5, idle=15, iowait=-3)}, (0, 1), 0.25)
    assert load is not None
    assert load.busy == pytest.approx(0.25)


def test_reads_before_and_after_sleeping(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 0 0 0 0 0 0 0 0 0 0\nintr 1 2\n")

    def work(seconds: float) -> None:
        stat.write_text("cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 30 0 0 10 0 0 0 0 30 0\nintr 1 2\n")

    load = read_load((0,), 0.5, tmp_path, work)
    assert load is not None
    assert load.busy == pytest.approx(0.75)


def test_what_is_not_told_is_not_idle(tmp_path: Path) -> None:
    before, after = {0: START, 1: START}, {0: _later(idle=20), 1: _later(idle=20)}
    assert load_between(before, after, (0, 1), 0.25) == Load(0.0, 0.0, 0.25)
    assert load_between(before, after, (0, 7), 0.25) is None
    assert load_between(before, before, (0, 1), 0.25) is None
    assert read_load((0,), 0.5, tmp_path / "absent", lambda _: None) is None


def test_what_the_callers_own_work_leaves_to_others() -> None:
    assert Load(busy=1.75, stolen=0.25, seconds=4.0).of_others(5.0) == Load(busy=0.25, stolen=0.25, seconds=4.0)


def test_the_load_while_something_runs_is_that_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat, now, own = tmp_path / "stat", iter([10.0, 14.0, 14.0, 18.0]), iter([1.0, 4.0, 4.0, 7.0])
    clocks = SimpleNamespace(monotonic=lambda: next(now), process_time=lambda: next(own))
    monkeypatch.setattr(host_load, "time", clocks)
    stat.write_text("cpu0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\n")

    def run() -> str:
        # Four seconds, in which one thread was busy, and the other half of the time, for a quarter of that stolen.
        stat.write_text("cpu0 400 0 0 0 0 0 0 0\ncpu1 150 0 0 200 0 0 0 50\n")
        return "done"

    assert with_load_of_others(run, (0, 1), stat) == ("done", Load(1.5 - 0.125 - 0.75, 0.125, 4.0))
    assert with_load_of_others(run, (0,), tmp_path / "absent")[1] is None
