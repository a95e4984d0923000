"""The choice of layers as arithmetic, without networks or clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import hypot
from statistics import median
from typing import Optional

Layers = frozenset[str]

# No conversion or kernel takes less; this avoids a division by zero.
_LEAST_MILLISECONDS = 1e-3


@dataclass(frozen=True)
class Trial:
    """The benefit and the cost of some layers in FP32.

    Attributes:
        divergence: of the outputs from FP32's.
        milliseconds: the latency beyond that of the network all in INT8.
        noise: the uncertainty of the measured latency, in milliseconds.
    """

    divergence: float
    milliseconds: float
    noise: float


def gain_per_millisecond(before: Trial, after: Trial, floor: float) -> float:
    """The decrease of the divergence per millisecond that it certainly costs, at least ``floor``."""
    cost = after.milliseconds - before.milliseconds - hypot(before.noise, after.noise)
    return (before.divergence - after.divergence) / max(cost, floor, _LEAST_MILLISECONDS)


def typical_noise(trials: Iterable[Trial]) -> float:
    """The median noise, as a common floor, so that a trial gains nothing from a quiet moment of measurement."""
    return median(trial.noise for trial in trials)


def greedy_path(
    candidates: Sequence[Layers], trial: Callable[[Layers], Trial], allowed: Callable[[Trial], bool]
) -> Iterator[Layers]:
    """Growing sets of layers: each adds the candidate that gains most per millisecond over the set before.

    A candidate's gain is computed again only when it comes first in the queue, after Minoux, "Accelerated greedy
    algorithms for maximizing submodular set functions" (1978): if gains only fall as the set grows, the result
    is that of computing all of them in every step. Candidates without a gain when their turn comes, and those
    that lead to a trial that is not allowed, are skipped.
    """
    chosen: Layers = frozenset()
    current = trial(chosen)
    alone = [trial(layers) for layers in candidates]
    floor = typical_noise(alone) if alone else 0.0
    queue = [(-gain_per_millisecond(current, single, floor), index) for index, single in enumerate(alone)]
    heapify(queue)
    while queue:
        _, index = heappop(queue)
        wider = chosen | candidates[index]
        if wider == chosen:
            continue
        result = trial(wider)
        gain = gain_per_millisecond(current, result, floor)
        if gain <= 0 or not allowed(result):
            continue
        if queue and (-gain, index) > queue[0]:
            heappush(queue, (-gain, index))
            continue
        chosen, current = wider, result
        yield chosen


def first_meeting(path: Iterable[Layers], meets: Callable[[Layers], bool]) -> Optional[Layers]:
    """The first set of a growing path that meets the goal; None if none does.

    Tests the 1st, 2nd, 4th, 8th and so on, then bisects the interval; if a set meets the goal, later ones
    should, too.
    """
    seen: list[Layers] = []
    failing, step, met = 0, 1, False
    for layers in path:
        seen.append(layers)
        if len(seen) == step:
            if met := meets(layers):
                break
            failing, step = step, 2 * step
    if not met and (len(seen) == failing or not meets(seen[-1])):
        return None
    meeting = len(seen)
    while meeting - failing > 1:
        middle = (meeting + failing) // 2
        if meets(seen[middle - 1]):
            meeting = middle
        else:
            failing = middle
    return seen[meeting - 1]


def leading(sets: Sequence[Layers], allowed: Callable[[Layers], bool]) -> Sequence[Layers]:
    """The sets of a growing path up to the last that is allowed: those before one that is allowed should be, too."""
    if not sets or allowed(sets[-1]):
        return sets
    low, high = 0, len(sets) - 1
    while low < high:
        middle = (low + high) // 2
        if allowed(sets[middle]):
            low = middle + 1
        else:
            high = middle
    return sets[:low]


def trimmed(chosen: Layers, order: Sequence[str], meets: Callable[[Layers], bool]) -> Layers:
    """``chosen`` without the layers that the goal does not need.

    Tries to leave out all of ``order`` at once; if that fails, its first half and its second half, and
    so on down to single layers. The result meets the goal if ``chosen`` does.
    """
    fewer = chosen - set(order)
    if fewer == chosen or meets(fewer):
        return fewer
    if len(order) == 1:
        return chosen
    half = len(order) // 2
    return trimmed(trimmed(chosen, order[:half], meets), order[half:], meets)
