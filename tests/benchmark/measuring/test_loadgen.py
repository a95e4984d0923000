"""Runs of LoadGen's server scenario over instances that sleep, against the queue's theory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from math import exp, factorial
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from quantkit.benchmark.measuring import loadgen
from quantkit.benchmark.measuring.loadgen import Observed, asked_for, check_loadgen, run_trial
from quantkit.benchmark.results.results import ServerTrial
from quantkit.errors import ExtraMissing, InstanceError, QuantkitError, UserError

pytestmark = pytest.mark.timing

needs_loadgen = pytest.mark.requires("loadgen")


def waits_at_most(time_: float, rate: float, service: float) -> float:
    """The share of requests that wait no longer than ``time_`` in an M/D/1 queue (Erlang, 1909)."""
    steps = range(int(time_ / service) + 1)
    terms = (
        (-1) ** k * (rate * (time_ - k * service)) ** k / factorial(k) * exp(rate * (time_ - k * service))
        for k in steps
    )
    return (1 - rate * service) * sum(terms)


def theory(percentile: float, rate: float, service: float) -> float:
    """That percentile of latency in an M/D/1 queue, in the unit of ``service``."""
    low, high = 0.0, 20 * service
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if waits_at_most(middle, rate, service) < percentile / 100 else (low, middle)
    return service + low


def test_the_theory() -> None:
    assert waits_at_most(0, 50, 0.01) == pytest.approx(0.5)
    random = np.random.default_rng(0)
    arrivals = np.cumsum(random.exponential(1 / 60, 400_000))
    begun = 0.01 * np.arange(len(arrivals)) + np.maximum.accumulate(arrivals - 0.01 * np.arange(len(arrivals)))
    for percentile in (50, 90, 99):
        simulated = np.percentile(begun + 0.01 - arrivals, percentile)
        assert theory(percentile, 60, 0.01) == pytest.approx(simulated, rel=0.03)


def sleeping(seconds: float) -> None:
    time.sleep(seconds)


def observed(
    folder: Path, rate: float, service: float, seconds: float, instances: int = 1, bound: float = 50
) -> Observed:
    return run_trial([lambda: sleeping(service)] * instances, rate, bound, seconds, 7, folder)


@needs_loadgen
def test_latencies_are_those_of_the_queue(tmp_path: Path) -> None:
    found = observed(tmp_path / "run", rate=60, service=0.01, seconds=5)
    trial = found.trial
    assert trial.rate == 60
    assert trial.completed == len(found.latencies)
    assert 220 < trial.completed < 380
    # Sleeping takes longer than asked, on a busy machine by much.
    for percentile, value in ((50, trial.p50), (90, trial.p90), (99, trial.p99)):
        expected = 1e3 * theory(percentile, 60, 0.01)
        assert 0.6 * expected < value < 2.5 * expected, percentile


@needs_loadgen
def test_loadgen_and_our_own_clock_agree(tmp_path: Path) -> None:
    found = observed(tmp_path / "run", rate=40, service=0.01, seconds=3)
    own = np.percentile(found.latencies, (50, 90, 99))
    # LoadGen counts the way to us and back as well, and takes a percentile's upper neighbour.
    assert found.trial.p50 == pytest.approx(own[0], abs=3)
    assert found.trial.p90 == pytest.approx(own[1], abs=8)
    assert min(found.latencies) >= 10
    assert found.trial.p50 >= own[0] - 0.5


@needs_loadgen
def test_two_instances_work_at_the_same_time(tmp_path: Path) -> None:
    found = observed(tmp_path / "run", rate=60, service=0.02, seconds=2, instances=2)
    # One instance would need 1.2 times as long as there is, and the last request would wait for 0.4 s.
    assert found.trial.p99 < 250


@needs_loadgen
def test_the_verdict_and_its_reasons_are_loadgens_own(tmp_path: Path) -> None:
    trial = observed(tmp_path / "run", rate=50, service=0.005, seconds=1, bound=1).trial
    assert not trial.valid
    summary = (tmp_path / "run" / "mlperf_log_summary.txt").read_text()
    assert "Result is : INVALID" in summary
    assert all(reason in " ".join(summary.split()) for reason in (" ".join(each.split()) for each in trial.why))
    assert "Performance constraints satisfied : NO" in trial.why
    assert "* Reduce target QPS to improve latency." in trial.why
    assert not any("Yes" in reason or reason.endswith(":") for reason in trial.why)
    assert trial.unmet[0] == "performance constraints"


@needs_loadgen
def test_loadgen_asks_for_more_where_a_run_was_too_short_to_be_sure(tmp_path: Path) -> None:
    trial = observed(tmp_path / "run", rate=50, service=0.005, seconds=0.5, bound=1000).trial
    assert trial.unmet == ("early stopping",)
    # With none above the bound, 459 requests tell with 99 % confidence that 99 % stay within it: 0.99 ** 459 < 0.01.
    assert asked_for(trial.why) == 459 - trial.completed
    assert any(reason.endswith("if every additional query were under latency.") for reason in trial.why)


def test_reasons_that_name_nothing() -> None:
    assert ServerTrial(1.0, 1, 1.0, 1.0, 1.0, False, ("something new",)).unmet == ()
    assert asked_for(("something new",)) is None


@needs_loadgen
def test_a_valid_run_needs_no_reasons(tmp_path: Path) -> None:
    trial = observed(tmp_path / "run", rate=400, service=0.0, seconds=3, bound=1000).trial
    assert trial.valid
    assert trial.why == ()


@needs_loadgen
def test_the_seed_decides_the_arrivals(tmp_path: Path) -> None:
    def count(seed: int) -> int:
        return run_trial([lambda: None], 100, 50, 1, seed, tmp_path / f"{seed}").trial.completed

    first = count(1)
    assert count(1) == first
    assert len({count(seed) for seed in (2, 3, 4)} | {first}) > 1


@needs_loadgen
def test_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    observed(tmp_path / "run", rate=50, service=0.0, seconds=0.3)
    assert capfd.readouterr() == ("", "")


@needs_loadgen
def test_an_audit_file_in_the_current_folder_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "audit.config").write_text("*.*.min_duration = 60000\n")
    monkeypatch.chdir(tmp_path)
    assert observed(tmp_path / "run", rate=50, service=0.0, seconds=0.3).trial.completed < 50


def children() -> set[int]:
    """The processes that this one has started and that still exist."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        # A thread may end before it is looked at.
        with suppress(FileNotFoundError, ProcessLookupError):
            found.update(map(int, (task / "children").read_text().split()))
    return found


@needs_loadgen
def test_an_instance_that_fails_ends_the_run_at_once(tmp_path: Path) -> None:
    calls = 0

    def serve() -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise InstanceError("killed", "process 1 was killed by SIGKILL")

    begun = time.monotonic()
    with pytest.raises(InstanceError, match="SIGKILL"):
        run_trial([serve], 50, 50, 60, 0, tmp_path / "run")
    assert time.monotonic() - begun < 5
    assert children() == set()


@needs_loadgen
def test_a_killed_loadgen_is_reported(tmp_path: Path) -> None:
    def kill() -> None:
        for pid in children():
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(QuantkitError, match=r"LoadGen ended with exit code -9"):
        run_trial([kill], 50, 50, 60, 0, tmp_path / "run")
    assert children() == set()


@needs_loadgen
def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(QuantkitError, match="choose another folder"):
        run_trial([lambda: None], 50, 50, 1, 0, file / "run")


WAITING = """
import os, signal, sys, time
from pathlib import Path
from quantkit.benchmark.measuring.loadgen import run_trial
# A shell's background jobs ignore it, and so do their children.
signal.signal(signal.SIGINT, signal.default_int_handler)
def serve():
    print(own_children(), flush=True)
    time.sleep(60)
def own_children():
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()
try:
    # After the first query LoadGen sleeps for a long time.
    run_trial([serve], 0.01, 50, 60, 0, Path(sys.argv[1]))
except KeyboardInterrupt:
    print(own_children() or "none", flush=True)
"""


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], IO[str], int]]:
    """A process in the middle of a run, its standard output, and its LoadGen's process number."""
    command = [sys.executable, "-c", WAITING, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout, int(process.stdout.readline())
        finally:
            process.kill()


@needs_loadgen
def test_ctrl_c_ends_it_at_once(waiting: tuple[subprocess.Popen[str], IO[str], int]) -> None:
    process, output, _ = waiting
    # A signal between Python's look at them and the read that waits for the next query would not end that read.
    while _state(process.pid) != "S":
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    # Its query would have taken a minute.
    assert process.wait(30) == 0
    assert output.read() == "none\n"


@needs_loadgen
def test_loadgen_does_not_outlive_a_killed_parent(waiting: tuple[subprocess.Popen[str], IO[str], int]) -> None:
    process, _, child = waiting
    process.kill()
    deadline = time.monotonic() + 5
    while (alive := _alive(child)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive


def _alive(pid: int) -> bool:
    try:
        return _state(pid) != "Z"
    except OSError:
        return False


def _state(pid: int) -> str:
    """What the first thread of a process does, such as S: it waits."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@needs_loadgen
def test_no_thread_is_left(tmp_path: Path) -> None:
    # Those of other tests may end meanwhile.
    before = set(threading.enumerate())
    observed(tmp_path / "run", rate=50, service=0.0, seconds=0.3, instances=3)
    assert set(threading.enumerate()) <= before


def test_a_missing_loadgen_is_named_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantkit.extras.find_spec", lambda _: None)
    with pytest.raises(ExtraMissing, match=r"pip install 'quantkit\[benchmark\]'"):
        check_loadgen()
    with pytest.raises(UserError, match="loadgen"):
        run_trial([lambda: None], 50, 50, 1, 0, tmp_path / "run")


@needs_loadgen
@pytest.mark.parametrize(
    ("limit", "reason"),
    [("max_query_count = 5", "Max query count reached"), ("max_duration_ms = 100", "Max test duration reached")],
)
def test_a_run_that_loadgen_breaks_off_is_refused_in_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, reason: str
) -> None:
    text = loadgen._PROCESS.read_text()
    broken_off = text.replace("test.min_query_count = 1", f"test.min_query_count = 6\n    test.{limit}")
    assert broken_off != text
    (tmp_path / "process.py").write_text(broken_off)
    monkeypatch.setattr(loadgen, "_PROCESS", tmp_path / "process.py")
    with pytest.raises(InstanceError, match=rf"not for its length alone: error_runtime: .*{reason}") as raised:
        observed(tmp_path / "run", rate=50, service=0.0, seconds=1)
    assert raised.value.kind == "loadgen"
