"""Files of events: appended, begun anew, and read with distrust."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import threading
from pathlib import Path

import pytest

from quantkit.deployment.watching import event_log as module
from quantkit.deployment.watching.event_log import EventLog, _EventFile
from quantkit.deployment.watching.events import Changed, Ended, Event, Figures, Started, rounded
from quantkit.deployment.watching.history import read_events
from quantkit.errors import DataError, UserError

TIME = "2026-01-02T03:04:05+00:00"
STARTED = Started(TIME, "net", "0" * 64, "mxnet", 64, {"input.mean": (0.5, 0.25, 0.4)})
DRIFT = Changed(TIME, "drift", "input.mean", 16, 2.0, 1.0)
FIGURES = Figures(TIME, 100, 50, {"input.mean": (2.0, 1.0)}, {"input.mean": TIME}, 10, 9, 1)


def written(path: Path, *events: Event) -> None:
    log = EventLog(path, STARTED)
    for event in events:
        log.write(event)
    log.close()


def test_what_is_written_is_read(events: Path) -> None:
    recovered = Changed(TIME, "recovered", "input.mean", 256, 0.5, 0.1)
    written(events, DRIFT, FIGURES, recovered, Figures(TIME, 200, 90), Ended(TIME))
    found = read_events(events)
    assert found.damaged == 0
    (run,) = found.runs
    assert (run.started, run.changes, run.ended) == (STARTED, (DRIFT, recovered), True)
    assert run.figures == (FIGURES, Figures(TIME, 200, 90))
    assert run.last.seen == 200
    assert run.drifting == {}


def test_events_that_a_slow_disk_makes_wait_are_lost_and_told_once(
    events: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_MOST_WAITING", 2)
    going_on = threading.Event()
    append = _EventFile.append

    def slow(file: _EventFile, event: Event) -> None:
        going_on.wait(60)
        append(file, event)

    monkeypatch.setattr(_EventFile, "append", slow)
    log = EventLog(events, STARTED)
    for _ in range(10):
        log.write(DRIFT)
    going_on.set()
    log.close()
    assert len(read_events(events).runs[0].changes) in (2, 3)
    assert [record.message for record in caplog.records] == [f"events are lost, since {events} is slow"]


def test_runs_follow_one_another(events: Path) -> None:
    written(events, DRIFT, Ended(TIME))
    written(events, FIGURES, DRIFT)
    first, second = read_events(events).runs
    assert (first.ended, second.ended) == (True, False)
    assert first.drifting == second.drifting == {"input.mean": TIME}
    assert (second.shadow.compared, second.shadow.agreeing, second.shadow.answered) == (10, 9, 1)
    assert first.last == Figures(TIME, 0, 0)


def test_figures_tell_what_drifts_where_the_event_was_lost(events: Path) -> None:
    written(events, FIGURES)
    assert read_events(events).runs[0].drifting == {"input.mean": TIME}


def test_a_long_file_makes_room_for_another(events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 1000)
    written(events, *[FIGURES] * 20)
    assert events.stat().st_size < 1500
    older = events.with_name("events.jsonl.1")
    assert read_events(events).runs[0].started == read_events(older).runs[0].started == STARTED


def test_what_is_moved_deleted_or_emptied_is_begun_anew(events: Path) -> None:
    file = _EventFile(events, STARTED)
    events.rename(events.with_name("moved"))
    file.append(DRIFT)
    assert read_events(events).runs[0].changes == (DRIFT,)
    events.unlink()
    file.append(DRIFT)
    assert read_events(events).runs[0].changes == (DRIFT,)
    os.truncate(events, 0)
    file.append(DRIFT)
    assert read_events(events).runs[0].changes == (DRIFT,)
    file.close()


def test_a_file_that_cannot_be_replaced_is_kept(events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _EventFile(events, STARTED)
    moved = events.with_name("moved")
    events.rename(moved)
    events.mkdir()
    with pytest.raises(OSError, match="directory"):
        file.append(DRIFT)
    events.rmdir()
    moved.rename(events)
    file.append(DRIFT)
    assert read_events(events).runs[0].changes == (DRIFT,)
    file.close()


def test_a_full_disk_loses_events_and_reports_it_once(
    events: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log, write, full = EventLog(events, STARTED), os.write, [True, True, False, True]

    def written(file: int, content: bytes) -> int:
        if full.pop(0):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, content)

    with caplog.at_level(logging.ERROR), monkeypatch.context() as patched:
        patched.setattr(module.os, "write", written)
        for event in (FIGURES, FIGURES, DRIFT, FIGURES):
            log.write(event)
        log.close()
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert "No space left" in caplog.text
    (run,) = read_events(events).runs
    assert (run.changes, run.figures) == ((DRIFT,), ())


def test_half_a_line_costs_no_other(events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, write = _EventFile(events, STARTED), os.write
    with monkeypatch.context() as patched, pytest.raises(OSError, match="only a part"):
        patched.setattr(module.os, "write", lambda file, content: write(file, content[:30]))
        file.append(FIGURES)
    file.close()
    # Another process goes on.
    written(events, DRIFT)
    found = read_events(events)
    assert found.damaged == 1
    assert [run.changes for run in found.runs] == [(), (DRIFT,)]


def test_two_deployments_do_not_share_a_file(events: Path) -> None:
    log = EventLog(events, STARTED)
    with pytest.raises(UserError, match="a deployment that is not closed writes to it"):
        EventLog(events, STARTED)
    log.close()
    written(events)


def test_a_slow_disk_loses_events_and_delays_nobody(events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = threading.Event()
    appended = []
    monkeypatch.setattr(_EventFile, "append", lambda self, event: (blocked.wait(), appended.append(event)))
    monkeypatch.setattr(module, "_PATIENCE", 0.1)
    log = EventLog(events, STARTED)
    for _ in range(3 * module._MOST_WAITING):
        log.write(FIGURES)
    log.close()
    assert log._thread.is_alive()
    blocked.set()
    log._thread.join()
    assert module._MOST_WAITING <= len(appended) <= module._MOST_WAITING + 1
    # It is closed after all.
    written(events)


def test_what_cannot_be_begun_leaves_nothing_behind(events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    for size in (0, 20):
        with monkeypatch.context() as patched, pytest.raises(UserError, match="cannot write events"):
            patched.setattr(module.os, "write", lambda file, content, size=size: write(file, content[:size]))
            EventLog(events, STARTED)
        assert events.read_bytes() == b""
    with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="no more"):
        patched.setattr(module.Thread, "start", lambda self: (_ for _ in ()).throw(RuntimeError("no more threads")))
        EventLog(events, STARTED)
    written(events, DRIFT)
    assert read_events(events).runs[-1].changes == (DRIFT,)


def test_a_fork_does_not_keep_the_file(events: Path) -> None:
    log = EventLog(events, STARTED)
    child = os.fork()
    if not child:
        signal.pause()
    try:
        log.close()
        written(events)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize("place", ["missing/events.jsonl", ".", "a\0b"])
def test_a_place_that_cannot_be_written_is_told_at_once(place: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot write events to"):
        EventLog(tmp_path / place, STARTED)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="cannot write events to"):
        EventLog(tmp_path / "pipe", STARTED)


@pytest.mark.parametrize("content", ["my notes", "{}\n", '{"event": "ended"}\n', "[" * 300_000])
def test_other_files_are_left_alone(content: str, events: Path) -> None:
    events.write_text(content)
    with pytest.raises(UserError, match="it holds something else"):
        EventLog(events, STARTED)
    assert events.read_text() == content


@pytest.mark.parametrize(
    "change",
    [
        {"signal": "\x1b[2J"},
        {"signal": "input.mean\n"},
        {"distance": 2.0},
        {"distance": float("inf")},
        {"mean": float("nan")},
        {"mean": "1"},
        {"samples": -1},
        {"samples": 10**400},
        {"time": "2026-02-31T00:00:00+00:00"},
        {"time": "now"},
        {"more": 1},
        {"event": "other"},
        {"event": "usual"},
    ],
)
def test_damaged_lines_are_counted_and_left_out(change: dict[str, object], events: Path) -> None:
    written(events, FIGURES)
    document = {"time": TIME, "event": "drift", "signal": "input.mean", "samples": 16, "mean": 2.0, "distance": 1.0}
    with events.open("a") as file:
        file.write(json.dumps(document) + "\n" + json.dumps({**document, **change}) + "\n\n")
    found = read_events(events)
    assert found.damaged == 1
    assert found.runs[0].changes == (DRIFT,)


def test_more_agree_than_were_compared_in_no_run(events: Path) -> None:
    written(events, Figures(TIME, 1, 1, compared=1, agreeing=2))
    assert read_events(events).damaged == 1


def test_a_file_full_of_damage_is_refused(events: Path) -> None:
    written(events)
    with events.open("a") as file:
        file.write("x\n" * 2000)
    with pytest.raises(DataError, match="more than 1000 damaged lines"):
        read_events(events)


@pytest.mark.parametrize("content", [b"", b"\n", b"{}\n", b'{"event": "ended"}\n', b"\xff\xfe", b"[" * 300_000])
def test_other_files_are_refused(content: bytes, events: Path) -> None:
    events.write_bytes(content)
    with pytest.raises(DataError, match="does not begin with a monitor's event"):
        read_events(events)


def test_what_is_no_file_and_too_large_a_one_are_refused(events: Path) -> None:
    with pytest.raises(DataError, match="cannot read"):
        read_events(events)
    with events.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(DataError, match="more than"):
        read_events(events)


def test_numbers_have_few_digits() -> None:
    assert (rounded(1 / 3), rounded(-1e-17), rounded(123456789.0)) == (0.333333, 0.0, 123457000.0)
