"""Trainings that take turns: all are stopped between them, and gone at the end."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from multiprocessing import active_children
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from quantkit.errors import EngineError
from quantkit.host.children import descendants
from quantkit.training.config import TrainingConfig
from tests.training.conftest import CLASSES, stored, tiny


def processes(spared: Collection[BaseProcess]) -> list[int]:
    """The numbers of the trainings' processes, which are all children but those, with what these started."""
    started = [child.pid or 0 for child in active_children() if child not in spared]
    return [*started, *(pid for each in started for pid in descendants(each))]


def stopped(spared: Collection[BaseProcess]) -> bool:
    """Whether all of them come to a stop; see proc(5)."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        states = {Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in processes(spared)}
        if states == {"T"}:
            return True
        time.sleep(0.01)
    return False


def test_trainings_run_in_their_turns_only(engine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import alternating_trainings as alternating

    images = Path(stored(tmp_path / "images.npz"))
    one, other = (alternating.Training(tiny(), images, CLASSES, TrainingConfig(batch_size=16)) for _ in range(2))
    read, seen, started = alternating._turn, [], set()
    # Those of clusters that other tests hold, for instance.
    others = active_children()

    def turn(running: Sequence[Any], epochs: int) -> alternating.Turn:
        before = stopped(others)
        started.update(processes(others))
        reading = read(running, epochs)
        seen.append((len(running), before, stopped(others)))
        return reading

    monkeypatch.setattr(alternating, "_turn", turn)
    found = alternating.turns({"one": [one], "both": [one, other]}, minutes=0, starts=2)
    assert sorted(seen) == [(1, True, True)] * 4 + [(2, True, True)] * 4
    assert [*found] == ["one", "both"] and all([turn.start for turn in each] == [0, 0, 1, 1] for each in found.values())
    assert all(reading.throughput > 0 and 0 <= reading.waiting <= 1 for each in found.values() for reading in each)
    # Two trainings, twice, each in a process that starts another.
    assert len(started) == 8 and not any(Path(f"/proc/{pid}").exists() for pid in started)


def test_an_epoch_in_which_a_training_was_stopped_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    from alternating_trainings import Turn, _Running

    from quantkit.training.epoch import Epoch

    # The first was told before the training continued at 10; the second holds the stop.
    lengths = [(9.0, 1.0), (12.0, 3.0), (13.5, 1.0), (15.5, 1.5)]
    told = iter([(at, Epoch(1, 0.5, 0.1, seconds, 20, 0.1, None)) for at, seconds in lengths])
    running = _Running.__new__(_Running)
    monkeypatch.setattr(running, "epoch", lambda: next(told))
    assert running.turn(10.0, 2) == pytest.approx(Turn(16.0, 0.08, 0.5))


def test_the_end_of_a_training_is_an_error(engine: None, tmp_path: Path) -> None:
    from alternating_trainings import Training, turns

    one = Training(tiny(), tmp_path / "absent.npz", CLASSES, TrainingConfig(batch_size=16))
    with pytest.raises(EngineError, match="a training that takes turns with others ended"):
        turns({"one": [one]}, minutes=0)
