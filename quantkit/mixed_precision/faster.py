"""The choice of the layers that are faster in FP32, without networks or clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

from quantkit.mixed_precision.candidates import Candidate
from quantkit.mixed_precision.choose import Layers
from quantkit.progress import Progress, silent

SCREENING = 0.5
"""The share of the budget for timing every candidate alone; the rest is for combining them."""

# Each pass over the candidates makes the network faster; few find anything after the first.
_PASSES = 3


@dataclass(frozen=True)
class Gain:
    """The milliseconds that a change saves: the median with its 95 % interval. ``before`` is a run's time before it."""

    saved: float
    low: float
    high: float
    before: float

    @property
    def certain(self) -> bool:
        """Whether the change is faster by more than chance."""
        return self.low > 0


@dataclass(frozen=True)
class Step:
    """A change that returned layers to FP32: what they have in common, and what it saved."""

    name: str
    gain: Gain


@dataclass(frozen=True)
class Choice:
    """The layers to return, each with the step that returned it.

    ``measured`` is how many candidates were timed alone; ``complete`` says whether the time sufficed for everything.
    """

    returned: Mapping[str, Step]
    measured: int
    complete: bool


def faster_layers(
    candidates: Sequence[Candidate],
    timed: Callable[[Layers, Layers], Gain],
    spent: Callable[[], float],
    progress: Progress = silent,
) -> Choice:
    """Choose the layers with which in FP32 the network is fastest.

    Every change is proven by two timings of which the interval excludes 0, so that none rests on a lucky one among
    many. Each candidate is timed alone; then those that are faster in FP32 are added to each other. At last, candidates
    that overlap with what was chosen are added as a whole, or taken back into INT8 where that is faster after all.

    Args:
        candidates: layers that may return to FP32 together, in the order in which to time them.
        timed: times the change from one set of layers in FP32 to another, anew with each call.
        spent: the share of the budget that is spent; a timing begins only below 1.
        progress: wraps the candidates while they are timed alone.
    """
    alone: list[tuple[Gain, Candidate]] = []
    steps = progress(candidates, len(candidates), "timing each layer and group in FP32 and in INT8")
    for candidate in steps:
        if spent() >= SCREENING:
            break
        alone.append((timed(frozenset(), candidate.layers), candidate))
    state = _State(timed, spent)
    winners = sorted((each for each in alone if each[0].certain), key=lambda each: -each[0].low)
    for _, candidate in winners:
        state.add(candidate, timings=1)
    # Nothing has changed since all candidates were timed where none was returned.
    for _ in range(_PASSES if state.returned else 0):
        if not sum(state.revise(candidate) for candidate in candidates):
            break
    return Choice(state.returned, len(alone), len(alone) == len(candidates) and spent() < 1)


def reasons(returned: Mapping[str, Step]) -> dict[str, str]:
    """Why each layer was returned to FP32."""
    sizes = Counter(returned.values())
    return {layer: _reason(step, sizes[step] - 1) for layer, step in returned.items()}


def _reason(step: Step, others: int) -> str:
    together = f" with {others} other{'s' if others > 1 else ''} ({step.name})" if others else ""
    gain = step.gain
    return (
        f"returned to FP32{together}: faster there by {gain.saved:.3g} ms [{gain.low:.3g}, {gain.high:.3g}] "
        f"of {gain.before:.3g} ms where it was quantized"
    )


class _State:
    """The layers returned so far."""

    def __init__(self, timed: Callable[[Layers, Layers], Gain], spent: Callable[[], float]) -> None:
        self.returned: dict[str, Step] = {}
        self._timed = timed
        self._spent = spent

    def add(self, candidate: Candidate, timings: int) -> bool:
        """Return a candidate to FP32 where that is faster in each of so many timings."""
        more = candidate.layers - self.returned.keys()
        gain = self._proven(self._chosen | more, timings) if more else None
        if gain is not None:
            self.returned.update(dict.fromkeys(sorted(more), Step(candidate.name, gain)))
        return gain is not None

    def revise(self, candidate: Candidate) -> bool:
        """Add a candidate that overlaps with the choice, or take one back that is within it."""
        if not candidate.layers & self._chosen:
            return False
        if not candidate.layers <= self._chosen:
            return self.add(candidate, timings=2)
        gain = self._proven(self._chosen - candidate.layers, 2)
        if gain is not None:
            self.returned = {layer: step for layer, step in self.returned.items() if layer not in candidate.layers}
        return gain is not None

    @property
    def _chosen(self) -> Layers:
        return frozenset(self.returned)

    def _proven(self, after: Layers, timings: int) -> Optional[Gain]:
        """The gain of a change in the last timing; None if one was not certain, or the time is up."""
        gain: Optional[Gain] = None
        for _ in range(timings):
            if self._spent() >= 1:
                return None
            gain = self._timed(self._chosen, after)
            if not gain.certain:
                return None
        return gain
