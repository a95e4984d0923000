"""Interleaved timing: contestants are measured in turns, so that the machine's moods hit all alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Optional, TypeVar

import numpy as np

Key = TypeVar("Key")
Found = TypeVar("Found")


def interleaved(
    turns: Mapping[Key, Callable[[], Found]],
    rounds: int,
    seconds: float = 0.0,
    random: Optional[np.random.Generator] = None,
) -> dict[Key, list[Found]]:
    """What each contestant's turns found; those of one round followed each other.

    Args:
        turns: takes one turn of each contestant.
        rounds: how often all take a turn, at least.
        seconds: more rounds begin until so much time has passed.
        random: draws the order of each round; None: the order of ``turns``.
    """
    found: dict[Key, list[Found]] = {name: [] for name in turns}
    names, done, began = list(turns), 0, perf_counter()
    while done < rounds or perf_counter() - began < seconds:
        for position in range(len(names)) if random is None else random.permutation(len(names)):
            found[names[position]].append(turns[names[position]]())
        done += 1
    return found


def durations(run: Callable[[], object], seconds: float, least: int = 1) -> list[float]:
    """How long each of several runs took, one after the other, in seconds.

    Args:
        run: runs once.
        seconds: more runs begin until so much time has passed.
        least: how many there are at least.
    """
    found: list[float] = []
    began = before = perf_counter()
    while len(found) < least or before - began < seconds:
        run()
        now = perf_counter()
        found.append(now - before)
        before = now
    return found
