"""Files of events: appended, begun anew, and read with distrust."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from quantkit.deployment.watching import events as module
from quantkit.deployment.watching.events import Changed, Ended, EventLog, Figures, Started, rounded
from quantkit.deployment.watching.history import read_events
from quantkit.errors import DataError, UserError

TIME = "2026-01-02T03:04:05+00:00"
STARTED = Started(TIME, "net", "0" * 64, "mxnet", 64, 0.4, {"input.mean": (0.5, 0.25)})
DRIFT = Changed(TIME, "drift", "input.mean", 16, 2.0, 1.0)
FIGURES = Figures(TIME, 100, 50, {"input.mean": (2.0, 1.0)}, ("input.mean",), 10, 9, 1)


def written(path: Path, *events: module.Event) -> None:
    log = EventLog(path, STARTED)
    for event in events:
        log.write(event)
    log.close()


def test_what_is_written_is_read(events: Path) -> None:
    usual = Changed(TIME, "usual", "input.mean", 256, 0.5, 0.1)
    written(events, DRIFT, FIGURES, usual, Figures(TIME, 200, 90), Ended(TIME))
    found = read_events(events)
    assert found.damaged == 0
    (run,) = found.runs
    assert (run.started, run.changes, run.ended) == (STARTED, (DRIFT, usual), True)
    assert run.figures == (FIGURES, Figures(TIME, 200, 90))
    assert run.last.seen == 200
    assert run.drifting == {}


def test_runs_follow_one_another(events: Path) -> None:
    written(events, DRIFT, Ended(TIME))
    written(events, DRIFT, FIGURES)
    first, second = read_events(events).runs
    assert (first.ended, second.ended) == (True, False)
    assert second.drifting == {"input.mean": DRIFT}
    assert (second.shadow.samples, second.shadow.agreeing, second.shadow.answered) == (10, 9, 1)
    assert first.last == Figures(TIME, 0, 0)


def test_a_long_file_makes_room_for_another(events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 1000)
    written(events, *[FIGURES] * 20)
    assert events.stat().st_size < 1500
    older = events.with_name("events.jsonl.1")
    assert read_events(events).runs[0].started == read_events(older).runs[0].started == STARTED


def test_a_full_disk_loses_events_and_says_so_once(events: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog(events, STARTED)
    full, kept = os.open("/dev/full", os.O_WRONLY), log._file
    with caplog.at_level(logging.ERROR):
        log._file = full
        log.write(FIGURES)
        log.write(FIGURES)
        assert len(caplog.records) == 1
        assert "No space left" in caplog.text
        log._file = kept
        log.write(DRIFT)
        log._file = full
        log.write(FIGURES)
    assert len(caplog.records) == 2
    os.close(full)
    assert read_events(events).runs[0].changes == (DRIFT,)


def test_half_a_line_costs_no_other(events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, write = EventLog(events, STARTED), os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda file, content: write(file, content[:30]))
        log.write(FIGURES)
    log.write(DRIFT)
    found = read_events(events)
    assert (found.damaged, found.runs[0].changes, found.runs[0].figures) == (1, (DRIFT,), ())


@pytest.mark.parametrize("place", ["missing/events.jsonl", ".", "a\0b"])
def test_a_place_that_cannot_be_written_is_told_at_once(place: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot write events to"):
        EventLog(tmp_path / place, STARTED)


def test_a_pipe_without_a_reader_does_not_make_it_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="cannot write events to"):
        EventLog(tmp_path / "pipe", STARTED)


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
