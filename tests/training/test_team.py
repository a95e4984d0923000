"""What the processes of a training tell, and how it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from multiprocessing import Pipe
from typing import Any, Optional

import pytest

from quantkit.errors import EngineError, InstanceError
from quantkit.progress import T
from quantkit.training.machines import Machines
from quantkit.training.team import Job, Team

JOB = Job("card.toml", "photos", None, {"epochs": 2}, None, (0, 0), "checkpoint", "", False, "dist_sync", False, None)


def told(messages: Iterable[dict[str, Any]], done: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[Any]]:
    """Of a training with three steps an epoch: what its progress shows, and its epochs."""
    team, shown = Team(JOB, [], None), list[str]()
    monkeypatch.setattr(team, "_messages", lambda: iter(messages))

    def progress(stream: Iterable[T], total: int, title: str) -> Iterator[T]:
        shown.append(f"{title}: {total}")
        for step in stream:
            shown.append(f"step {step}")
            yield step

    return shown, list(team.epochs(done, 3, progress))


def epoch(number: int) -> dict[str, Any]:
    return {"epoch": {"number": number}}


STEPS = ["step 1", "step 2", "step 3"]


def test_steps_are_shown_once_each_however_they_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [{"step": 2}, {"step": 2}, {"step": 0}, epoch(1), {"step": 1}, {"step": 9}, epoch(2)]
    shown, epochs = told(messages, 0, monkeypatch)
    assert shown == ["epoch 1 of 2: 3", *STEPS, "epoch 2 of 2: 3", *STEPS]
    assert epochs == [{"number": 1}, {"number": 2}]


def test_a_training_goes_on_with_the_epoch_after_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, epochs = told([{"step": 3}, epoch(2)], 1, monkeypatch)
    assert shown == ["epoch 2 of 2: 3", *STEPS] and epochs == [{"number": 2}]


def test_a_training_that_ends_early_ends_here_too(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, epochs = told([epoch(1)], 0, monkeypatch)
    assert shown == ["epoch 1 of 2: 3", *STEPS, "epoch 2 of 2: 3"] and epochs == [{"number": 1}]


class Timed:
    """An instance that tells something after so many seconds each time, None for a look that finds nothing.

    Who listens is ``stopped`` in the first look for so many seconds.
    """

    def __init__(self, said: Iterable[tuple[int, Optional[dict[str, Any]]]], stopped: float = 0.0) -> None:
        self.channel, _ = Pipe()
        self.now = 0.0
        self._waits = chain.from_iterable((*[None] * (seconds - 1), message) for seconds, message in said)
        self._stopped, self._message = stopped, dict[str, Any]()

    def wait(self, channels: Sequence[object], timeout: float) -> Sequence[object]:
        message = next(self._waits)
        self.now += timeout + self._stopped
        self._stopped = 0.0
        self._message = message or {}
        return [] if message is None else [self.channel]

    def answer(self, patience: float) -> dict[str, Any]:
        return self._message

    def lives(self) -> bool:
        return True


MET, DONE = {"step": 0}, {"done": True}


@pytest.mark.parametrize(
    ("said", "patience", "words"),
    [
        ([], 600, "the machines did not meet at 10.0.0.1:9000 within 600 s; .*where one is done, take its result"),
        # How long they waited for each other says nothing of their steps.
        ([(500, MET)], 600, "no instance of the training made a step for 600 s"),
        # Validation samples are read before the first step.
        ([(10, MET), (400, MET)], 1200, "made a step for 1200 s"),
        (
            [(500, MET), (10, {"step": 1})],
            300,
            r"made a step for 300 s \(steps that take so long need a smaller batch: ",
        ),
        ([(10, MET), (10, epoch(1))], 300, "made a step for 300 s"),
        ([(10, MET), (500, {"step": 1})], 1500, "made a step for 1500 s"),
        ([(10, MET), (10, {"step": 1}), (250, {"step": 2}), (10, {"step": 3})], 750, "made a step for 750 s"),
    ],
)
def test_instances_hang_that_are_silent_for_much_longer_than_before(
    said: list[tuple[int, Optional[dict[str, Any]]]], patience: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listened(silence: int) -> None:
        one, team = Timed([*said, (silence, None), (0, DONE)]), Team(JOB, [], Machines(2, 0, "10.0.0.1:9000"))
        monkeypatch.setattr(team, "_instances", [one])
        monkeypatch.setattr("quantkit.training.team.wait", one.wait)
        monkeypatch.setattr("quantkit.training.team.time.monotonic", lambda: one.now)
        assert [*team._messages()] == [message for _, message in said]

    listened(patience - 1)
    with pytest.raises(InstanceError, match=words):
        listened(patience + 1)


def test_time_in_which_this_process_was_stopped_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    one, team = Timed([(10, {"step": 1}), (290, None), (1, DONE)], stopped=4000.0), Team(JOB, [], None)
    monkeypatch.setattr(team, "_instances", [one])
    monkeypatch.setattr("quantkit.training.team.wait", one.wait)
    monkeypatch.setattr("quantkit.training.team.time.monotonic", lambda: one.now)
    assert [*team._messages()] == [{"step": 1}] and one.now > 4000


class Process:
    """One that tells of an error, or has ended."""

    def __init__(self, lives: bool) -> None:
        self._lives, self.channel = lives, object()

    def answer(self, patience: float) -> dict[str, Any]:
        raise EngineError("the connection was reset")

    def lives(self) -> bool:
        return self._lives

    def gone(self) -> InstanceError:
        return InstanceError("killed", "it was killed")


@pytest.mark.parametrize(
    ("machines", "other_lives", "error", "words"),
    [
        (None, False, InstanceError, "it was killed"),
        (None, True, EngineError, "the connection was reset"),
        (Machines(2, 1, "10.0.0.1:9000"), True, InstanceError, "the connection was reset"),
    ],
)
def test_an_error_that_comes_from_a_loss_is_a_loss(
    machines: Optional[Machines],
    other_lives: bool,
    error: type[Exception],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("quantkit.training.team._LOOKS", 1)
    team, one, other = Team(JOB, [], machines), Process(lives=True), Process(other_lives)
    monkeypatch.setattr(team, "_instances", [one, other])
    with pytest.raises(error, match=words):
        team._message(one, {one.channel, other.channel})  # type: ignore[arg-type]
    if not other_lives:
        # One that is done may be gone.
        with pytest.raises(EngineError):
            team._message(one, {one.channel})  # type: ignore[arg-type]
