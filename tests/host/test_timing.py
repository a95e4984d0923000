"""Turns and runs that take time of a made-up clock."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from quantkit.host import timing
from quantkit.host.timing import durations, interleaved


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now

    def taking(self, *seconds: float) -> Callable[[], float]:
        """What takes so long, the last of them over and over, and says when it was over."""
        waiting = list(seconds)

        def run() -> float:
            self.now += waiting.pop(0) if len(waiting) > 1 else waiting[0]
            return self.now

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing, "perf_counter", clock)
    return clock


def test_turns_of_one_round_follow_each_other(clock: Clock) -> None:
    turns = {"one": clock.taking(1.0), "two": clock.taking(2.0)}
    assert interleaved(turns, 3) == {"one": [1.0, 4.0, 7.0], "two": [3.0, 6.0, 9.0]}


@pytest.mark.parametrize(("seconds", "rounds"), [(0.0, 3), (9.0, 3), (9.5, 4), (12.0, 4), (12.5, 5)])
def test_rounds_go_on_until_there_are_enough_and_the_time_is_over(clock: Clock, seconds: float, rounds: int) -> None:
    found = interleaved({"one": clock.taking(1.0), "two": clock.taking(2.0)}, 3, seconds)
    assert [len(values) for values in found.values()] == [rounds, rounds]


def test_every_round_has_an_order_of_its_own_that_the_seed_repeats() -> None:
    def order(seed: int) -> list[int]:
        told: list[int] = []
        turns = {number: (lambda number=number: told.append(number)) for number in range(4)}
        interleaved(turns, 6, random=np.random.default_rng(seed))
        return told

    assert order(1) == order(1) != order(2)
    rounds = np.reshape(order(1), (6, 4))
    assert np.array_equal(np.sort(rounds), np.tile(range(4), (6, 1)))
    assert len(np.unique(rounds, axis=0)) > 1


def test_nobody_takes_no_turns() -> None:
    assert interleaved({}, 3) == {}


@pytest.mark.parametrize(
    ("seconds", "least", "expected"),
    [(0.0, 1, [4.0]), (4.0, 1, [4.0]), (4.5, 1, [4.0, 1.0]), (0.0, 3, [4.0, 1.0, 1.0]), (6.5, 2, [4.0, 1.0, 1.0, 1.0])],
)
def test_runs_go_on_until_there_are_enough_and_the_time_is_over(
    clock: Clock, seconds: float, least: int, expected: list[float]
) -> None:
    assert durations(clock.taking(4.0, 1.0), seconds, least) == expected
