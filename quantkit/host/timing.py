"""Interleaved timing: contestants take turns, so that fluctuations of the machine affect all alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Optional, TypeVar

import numpy as np

Key = TypeVar("Key")
Result = TypeVar("Result")


def interleaved(
    turns: Mapping[Key, Callable[[], Result]],
    rounds: int,
    seconds: float = 0.0,
    random: Optional[np.random.Generator] = None,
) -> dict[Key, list[Result]]:
    """The results of each contestant's turns; all take a turn in each round.

    Args:
        turns: the function that takes one turn, by contestant.
        rounds: the minimum number of rounds.
        seconds: further rounds begin until this much time has passed.
        random: draws the order of each round; None: the order of ``turns``.
    """
    results: dict[Key, list[Result]] = {name: [] for name in turns}
    names, done, began = list(turns), 0, perf_counter()
    while done < rounds or perf_counter() - began < seconds:
        for position in range(len(names)) if random is None else random.permutation(len(names)):
            results[names[position]].append(turns[names[position]]())
        done += 1
    return results


def durations(run: Callable[[], object], seconds: float, least: int = 1) -> list[float]:
    """The durations of successive runs, in seconds.

    Args:
        run: runs once.
        seconds: further runs begin until this much time has passed.
        least: the minimum number of runs.
    """
    times: list[float] = []
    began = before = perf_counter()
    while len(times) < least or before - began < seconds:
        run()
        now = perf_counter()
        times.append(now - before)
        before = now
    return times
