"""Rounds: contestants that are measured in turns, so that fluctuations of the machine affect all alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from quantkit.deployment.tuning.contestant import Contestant, Running
from quantkit.deployment.tuning.point import Load, Point
from quantkit.errors import QuantkitError

LONG = 2.0
"""Turns of a comparison that decides are so many times as long as others."""

# Rounds of a comparison on the way; of one that decides, at least and at most.
_FEW = 4
_LEAST, _MOST = 4, 30


@dataclass(frozen=True)
class Rounds:
    """Of each contestant that ran to the end the measurement of every round.

    ``problems`` say why the others did not.
    """

    points: Mapping[Contestant, list[Point]]
    problems: Mapping[Contestant, str]


def in_turns(loads: Mapping[Contestant, Load], seconds: float, more: Callable[[int], bool]) -> Rounds:
    """Measure contestants, all in each round, in random order.

    Args:
        loads: the load of each contestant.
        seconds: of one measurement.
        more: whether there is to be a further round after so many.
    """
    shuffled = random.Random(0)
    points: dict[Contestant, list[Point]] = {}
    problems: dict[Contestant, str] = {}
    with ExitStack() as stack:
        running: dict[Contestant, Running] = {}
        for contestant in loads:
            try:
                running[contestant] = stack.enter_context(Running(contestant))
                points[contestant] = []
            except QuantkitError as error:
                problems[contestant] = str(error)
        done = 0
        while points and more(done):
            for contestant in shuffled.sample([*points], len(points)):
                try:
                    points[contestant].append(running[contestant].measure(loads[contestant], seconds))
                except QuantkitError as error:
                    problems[contestant] = str(error)
                    del points[contestant]
            done += 1
    return Rounds(points, problems)


def few(done: int) -> bool:
    """Whether a comparison on the way has a further round after so many."""
    return done < _FEW


def decisive(more: Callable[[], bool]) -> Callable[[int], bool]:
    """Whether a comparison that decides has a further round after so many, while there is ``more`` time."""
    return lambda done: done < _LEAST or (done < _MOST and more())
