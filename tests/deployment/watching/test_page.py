"""The page of a file of events."""

from __future__ import annotations

from pathlib import Path

import pytest

from quantkit.deployment.watching.event_log import EventLog
from quantkit.deployment.watching.events import Changed, Ended, Figures, Started
from quantkit.deployment.watching.history import Events, read_events
from quantkit.deployment.watching.page import document, verdict
from quantkit.report.page.html import page

NAME = "output.margin"


def time(minute: int) -> str:
    return f"2026-01-02T03:{minute:02}:00+00:00"


@pytest.fixture
def drifted(events: Path) -> Events:
    calibration = {"input.mean": (0.5, 0.25, 0.2), NAME: (3.0, 1.0, 0.4)}
    log = EventLog(events, Started(time(0), "<net>", "0" * 64, "mxnet", 64, calibration))
    for minute in range(1, 5):
        signals = {"input.mean": (0.5, 0.1), NAME: (3.0 - minute, 0.2 * minute)}
        log.write(Figures(time(minute), 100 * minute, 50 * minute, signals, compared=minute, agreeing=1, answered=2))
    log.write(Changed(time(5), "drift", NAME, 64, -1.0, 0.8))
    log.write(Changed(time(5), "drift", "input.mean", 16, 9.0, 0.9))
    log.write(Changed(time(6), "recovered", "input.mean", 256, 0.5, 0.1))
    log.write(Ended(time(7)))
    log.close()
    return read_events(events)


def test_it_tells_what_drifts_and_since_when(drifted: Events) -> None:
    text = page(document("events.jsonl", drifted))
    assert f"1 signal drifts: {NAME}." in text
    assert "2026-01-02 03:05:00" in text
    assert "no longer drifts" in text
    assert "&lt;net&gt;" in text
    assert "<net>" not in text
    assert "25.0 % [4.6 %, 69.9 %] of 4 samples" in text
    assert "FP32 has answered 2 samples" in text
    assert text.count("<svg") >= 1


def test_files_without_figures_have_a_page(events: Path) -> None:
    EventLog(events, Started(time(0), "net", "0" * 64, "mxnet", 64, {"input.mean": (0.5, 0.25, 0.4)})).close()
    found = read_events(events)
    assert "too few figures yet" in page(document("events.jsonl", found))
    assert verdict(found.runs[0]) == "Too few samples were watched to test anything yet."


def test_earlier_runs_and_damaged_lines_are_counted(drifted: Events) -> None:
    twice = Events(drifted.runs * 2, 3)
    text = page(document("events.jsonl", twice))
    assert "1 earlier run in the file" in text
    assert "3 damaged lines of the file" in text
