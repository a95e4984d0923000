"""The course of a search: the order of measurements, and the choice of the best network."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Optional

from quantkit.mixed_precision.candidates import Candidate
from quantkit.mixed_precision.choose import (
    Layers,
    Trial,
    first_meeting,
    gain_per_millisecond,
    greedy_path,
    leading,
    trimmed,
    typical_noise,
)
from quantkit.mixed_precision.measurements import JudgedNetwork, Measurements, TimeIsUp
from quantkit.progress import Progress
from quantkit.quantization.algorithms.apply import AdjustedNetwork
from quantkit.quantization.goal import Goal

# The share of the budget after which no further candidates are measured; the rest is for choosing.
_MEASURING = 0.5

_NONE: Layers = frozenset()


@dataclass(frozen=True)
class Kept:
    """A layer that was returned to FP32, and its benefit alone.

    ``share`` is its reduction of the divergence of the network all in INT8, as a share of that divergence;
    ``trial`` is None if the budget ended before the layer was measured alone.
    """

    layer: str
    operator: str
    trial: Optional[Trial]
    share: Optional[float]


def meets(check: JudgedNetwork, goal: Goal) -> bool:
    """Whether a network meets the goal."""
    accurate = goal.max_drop is None or (check.drop is not None and goal.accurate(check.drop.loss))
    return accurate and goal.fast(check.speedup)


def best(checks: Collection[JudgedNetwork], goal: Goal) -> JudgedNetwork:
    """The best of the checked networks, which include the one all in INT8.

    Of those that meet the goal it is the fastest, but a network loses to one with fewer of its layers that is
    not certainly slower (which happens where many tensors change between integers and FP32). If the goal is only
    speed, it is the nearest to FP32 that is fast enough. If none meets the goal, it has the smallest drop among
    those fast enough; if none is fast enough either, it is all INT8.
    """
    fast = [check for check in checks if goal.fast(check.speedup)]
    if not fast:
        return next(check for check in checks if not check.layers)
    meeting = [check for check in fast if meets(check, goal)]
    if goal.max_drop is None:
        return min(fast, key=lambda check: check.divergence)
    if not meeting:
        return min(fast, key=_error)
    least = [check for check in meeting if not any(_replaces(other, check) for other in meeting)]
    layers = min(least, key=lambda check: check.extra).layers
    return min((check for check in least if check.layers == layers), key=_error)


def _replaces(fewer: JudgedNetwork, check: JudgedNetwork) -> bool:
    slower = fewer.extra - fewer.noise > check.extra + check.noise
    return fewer.layers < check.layers and not slower


def _error(check: JudgedNetwork) -> tuple[float, float]:
    return math.inf if check.drop is None else check.drop.loss, check.divergence


class Exploration:
    """One search. ``candidates`` are all candidates, ``measured`` is the number of those measured so far."""

    def __init__(
        self,
        measurements: Measurements,
        adjusted: AdjustedNetwork,
        goal: Goal,
        candidates: Sequence[Candidate],
        progress: Progress,
    ) -> None:
        self.candidates = candidates
        self.measured = 0
        self._measurements = measurements
        self._adjusted = adjusted
        self._goal = goal
        self._progress = progress
        self._path: list[Layers] = []

    def run(self) -> bool:
        """Search until the goal is met or nothing is left to try; returns whether the budget ended before."""
        measurements = self._measurements
        start = measurements.check(_NONE, overtime=True)
        accurate = self._goal.max_drop is not None and meets(start, self._goal)
        if accurate or not self._goal.fast(start.speedup):
            return False
        try:
            self._measure()
            self._choose(start)
            self._adjust_again()
        except TimeIsUp:
            measurements.check(self._path[-1] if self._path else _NONE, overtime=True)
            return True
        return False

    def kept(self, layers: Collection[str]) -> tuple[Kept, ...]:
        """The layers in the network's order, with the benefit of each alone."""
        rows = []
        start = self._measurements.check(_NONE)
        for name, decision in self._adjusted.network.plan.decisions.items():
            if name in layers:
                trial = self._known(frozenset({name}))
                share = None if trial is None else 1 - trial.divergence / start.divergence
                rows.append(Kept(name, decision.operator, trial, share))
        return tuple(rows)

    def _known(self, layers: Layers) -> Optional[Trial]:
        try:
            return self._measurements.trial(layers)
        except TimeIsUp:
            return None

    def _measure(self) -> None:
        steps: Iterable[Candidate] = self._progress(
            self.candidates, len(self.candidates), "measuring what each layer gives and costs in FP32"
        )
        self._measurements.trial(_NONE)
        for candidate in steps:
            if self._measurements.budget.spent >= _MEASURING and not self._measurements.knows(candidate.layers):
                break
            self._measurements.trial(candidate.layers)
            self.measured += 1

    def _choose(self, start: JudgedNetwork) -> None:
        goal, measurements = self._goal, self._measurements

        def allowed(trial: Trial) -> bool:
            return goal.fast(start.milliseconds["fp32"] / (start.milliseconds["int8"] + trial.milliseconds))

        def fits(layers: Layers) -> bool:
            return meets(measurements.check(layers), goal)

        path = self._followed([candidate.layers for candidate in self.candidates[: self.measured]], allowed)
        if goal.max_drop is None:
            next((layers for layers in reversed(list(path)) if fits(layers)), None)
            return
        whole = frozenset(node.name for node in self._adjusted.network.int8_weighted)
        chosen = first_meeting(path, fits)
        if chosen is None:
            wider = leading(tuple(self._widened(whole)), lambda layers: allowed(measurements.trial(layers)))
            # The largest set comes first, so that a search that runs out of time keeps it.
            chosen = first_meeting(wider, fits) if wider and fits(wider[-1]) else None
        if chosen is None:
            # Predictions are coarse: a set may meet the goal although larger ones that were tested do not.
            chosen = next((layers for layers in self._path if fits(layers)), None)
        if chosen is not None:
            trimmed(chosen, self._by_gain(chosen), fits)

    def _followed(self, sets: Sequence[Layers], allowed: Callable[[Trial], bool]) -> Iterator[Layers]:
        """The greedy path, whose sets are kept in ``_path``."""
        path = greedy_path(sets, self._measurements.trial, allowed)
        for layers in self._progress(path, len(sets), "choosing layers"):
            self._path.append(layers)
            yield layers

    def _widened(self, whole: Layers) -> Iterator[Layers]:
        """From the last set of the path on to all layers, one more at a time: first those that were not measured.

        The others left out of the path gain nothing there, or are too slow.
        """
        reached = self._path[-1] if self._path else _NONE
        for layer in self._by_gain(whole - reached):
            reached |= {layer}
            yield reached

    def _by_gain(self, layers: Layers) -> list[str]:
        """Layers by what they gain alone, those that were not measured alone first."""
        measurements = self._measurements
        none = measurements.trial(_NONE)
        known = [layer for layer in layers if measurements.knows(frozenset({layer}))]
        alone = {layer: measurements.trial(frozenset({layer})) for layer in known}
        floor = typical_noise(alone.values()) if alone else 0.0
        gains = {layer: gain_per_millisecond(none, trial, floor) for layer, trial in alone.items()}
        return sorted(sorted(layers), key=lambda layer: gains.get(layer, -math.inf))

    def _adjust_again(self) -> None:
        chosen = best(tuple(self._measurements.checks.values()), self._goal)
        if chosen.layers and self._adjusted.algorithms.works:
            self._measurements.check(chosen.layers, again=True)
