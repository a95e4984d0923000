"""`quantkit watch`: what a monitor has told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quantkit.deployment.watching.event_log import EventLog
from quantkit.deployment.watching.events import Changed, Figures, Started
from tests.cli.conftest import Run

TIME = "2026-01-02T03:04:05+00:00"


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "net-1.jsonl"
    log = EventLog(path, Started(TIME, "net", "0" * 64, "mxnet", 64, {"input.mean": (0.5, 0.25, 0.4)}))
    log.write(Changed(TIME, "drift", "input.mean", 16, 9.0, 0.9))
    log.write(Figures(TIME, 100, 50, {"input.mean": (9.0, 0.9)}, {"input.mean": TIME}, 10, 9))
    log.close()
    return path


def test_a_table_and_a_verdict(events: Path, run: Run) -> None:
    done = run("watch", events)
    assert done.exit_code == 0, done.output
    for text in (
        "input.mean",
        "0.5 ± 0.25",
        "0.90",
        "100 samples answered, 50 of them watched",
        "net in mxnet, from 2026-01-02T03:04:05+00:00",
        "no end was recorded",
        "1 signal drifts",
    ):
        assert text in " ".join(done.output.split())
    assert not list(events.parent.glob("*.html"))


def test_json_and_a_page(events: Path, run: Run, tmp_path: Path) -> None:
    page = tmp_path / "drift.html"
    done = run("watch", events, "--out", page, "--json")
    document = json.loads(done.stdout)
    assert document["drifting"] == {"input.mean": TIME}
    assert document["figures"]["seen"] == 100
    assert document["agreement"][0] == 0.9
    assert document["page"] == str(page)
    assert "Watching net" in page.read_text()
    assert run("watch", events, "--out", page).exit_code == 2
    assert run("watch", events, "--out", page, "--force").exit_code == 0


@pytest.mark.parametrize("content", [None, "hello\n"])
def test_other_files_are_refused(content: str, tmp_path: Path, run: Run) -> None:
    path = tmp_path / "other.jsonl"
    if content is not None:
        path.write_text(content)
    done = run("watch", path)
    assert done.exit_code == 2
    assert "give a file that a monitor wrote" in " ".join(done.output.split())
