"""Which layers to choose, as arithmetic: nothing here knows networks or clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import hypot
from statistics import median
from typing import Optional

Layers = frozenset[str]

# No conversion or kernel takes less: what seems to cost nothing is not divided by nothing.
_LEAST_MILLISECONDS = 1e-3


@dataclass(frozen=True)
class Trial:
    """What some layers in FP32 give and cost.

    Attributes:
        divergence: how far the outputs are from FP32's.
        milliseconds: the latency beyond that of the network all in INT8.
        noise: by how much the measured latency may be wrong, in milliseconds.
    """

    divergence: float
    milliseconds: float
    noise: float


def gain_per_millisecond(before: Trial, after: Trial, floor: float) -> float:
    """The fall of the divergence by the milliseconds that it costs beyond doubt, which count at least as ``floor``."""
    cost = after.milliseconds - before.milliseconds - hypot(before.noise, after.noise)
    return (before.divergence - after.divergence) / max(cost, floor, _LEAST_MILLISECONDS)


def typical_noise(trials: Iterable[Trial]) -> float:
    """The median noise: one floor for all, so that none is preferred for being measured in a quiet moment."""
    return median(trial.noise for trial in trials)


def greedy_path(
    candidates: Sequence[Layers], trial: Callable[[Layers], Trial], allowed: Callable[[Trial], bool]
) -> Iterator[Layers]:
    """Growing sets of layers: each adds the candidate that gives most per millisecond on top of those before.

    A candidate's worth is looked at anew only when it comes first in the queue, after Minoux, "Accelerated greedy
    algorithms for maximizing submodular set functions" (1978): where worth only falls as the set grows, the result
    is that of looking at all of them in every step. Candidates that are of no worth when their turn comes, and those
    that lead to a trial that is not allowed, are passed over.
    """
    chosen: Layers = frozenset()
    current = trial(chosen)
    alone = [trial(layers) for layers in candidates]
    floor = typical_noise(alone) if alone else 0.0
    queue = [(-gain_per_millisecond(current, found, floor), index) for index, found in enumerate(alone)]
    heapify(queue)
    while queue:
        _, index = heappop(queue)
        wider = chosen | candidates[index]
        if wider == chosen:
            continue
        found = trial(wider)
        worth = gain_per_millisecond(current, found, floor)
        if worth <= 0 or not allowed(found):
            continue
        if queue and (-worth, index) > queue[0]:
            heappush(queue, (-worth, index))
            continue
        chosen, current = wider, found
        yield chosen


def first_meeting(path: Iterable[Layers], meets: Callable[[Layers], bool]) -> Optional[Layers]:
    """The first set of a growing path that meets the goal; None if none does.

    Looks at the 1st, 2nd, 4th, 8th and so on, then halves what lies between; if a set meets the goal, later ones
    should, too.
    """
    seen: list[Layers] = []
    failing, step, found = 0, 1, False
    for layers in path:
        seen.append(layers)
        if len(seen) == step:
            if found := meets(layers):
                break
            failing, step = step, 2 * step
    if not found and (len(seen) == failing or not meets(seen[-1])):
        return None
    meeting = len(seen)
    while meeting - failing > 1:
        middle = (meeting + failing) // 2
        if meets(seen[middle - 1]):
            meeting = middle
        else:
            failing = middle
    return seen[meeting - 1]


def trimmed(chosen: Layers, order: Sequence[str], meets: Callable[[Layers], bool]) -> Layers:
    """What is left of ``chosen`` when layers that the goal does not need are taken out.

    Tries to do without all of ``order`` at once, then, where that fails, without its first half and its second, and
    so on down to single layers. The result meets the goal if ``chosen`` does.
    """
    fewer = chosen - set(order)
    if fewer == chosen or meets(fewer):
        return fewer
    if len(order) == 1:
        return chosen
    half = len(order) // 2
    return trimmed(trimmed(chosen, order[:half], meets), order[half:], meets)
