"""Telling drift: the signals of watched samples held against those of calibration, over and over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from quantkit.drift.reference import DriftReference
from quantkit.drift.signals import Signals
from quantkit.drift.two_samples import chance, distance, least_distance

FALSE_ALARMS = 1e-6
"""How likely one look at samples like those of calibration ends in an alarm, at most, by all signals together."""

LOOKS = (16, 64, 256)
"""So many watched samples are looked at together, each sample once with every number: few of them tell large changes
soon, many tell small ones."""

# The look at fewer is shown only until there is one at so many, or where it tells a drift.
_SHOWN = 64


@dataclass(frozen=True)
class Look:
    """A signal at its last look.

    Attributes:
        samples: how many samples were looked at.
        mean: of the signal over them.
        distance: of its distribution from the usual one, from 0 to 1.
        drifts: whether it is too far from it for chance.
    """

    samples: int
    mean: float
    distance: float
    drifts: bool


@dataclass(frozen=True)
class Change:
    """A signal that began to drift, or that is as usual again; ``look`` is the one that told."""

    signal: str
    begins: bool
    look: Look


class DriftWatch:
    """Holds samples against a reference.

    A signal drifts if the test of Kolmogorov and Smirnov rejects, at a level that is shared among the signals
    (Bonferroni's correction), that it has the distribution that it had in calibration. Such tests of single signals
    find shifts at least as well as those of all together (Rabanser, Guennemann and Lipton, "Failing Loudly: An
    Empirical Study of Methods for Detecting Dataset Shift", NeurIPS 2019). It is as usual again after 256 samples
    without such a look.
    """

    def __init__(self, reference: DriftReference) -> None:
        """Begin with no sample."""
        self._reference = reference
        self._level = FALSE_ALARMS / len(reference.signals)
        self._window: list[Signals] = []
        self._held = 0
        self._drifted: set[str] = set()
        self._drifting: set[str] = set()
        self._looks: dict[str, Look] = {}

    @property
    def looks(self) -> Mapping[str, Look]:
        """The last look at each signal, of at least 64 samples as soon as there is one."""
        return dict(self._looks)

    @property
    def drifting(self) -> frozenset[str]:
        """The signals that drift."""
        return frozenset(self._drifting)

    @property
    def least(self) -> float:
        """The smallest distance that can be told, from 0 to 1; more samples of calibration make it smaller."""
        return least_distance(self._level, self._reference.samples, LOOKS[-1])

    def add(self, signals: Signals) -> list[Change]:
        """Add the signals of some samples.

        Returns:
            What began to drift, or is as usual again.
        """
        known = {name: values for name, values in signals.items() if name in self._reference.signals}
        if not known:
            return []
        finite = np.isfinite(np.stack(list(known.values()))).all(axis=0)
        known = {name: values[finite] for name, values in known.items()}
        changes, start, samples = [], 0, int(finite.sum())
        while start < samples:
            end = min(samples, start + LOOKS[0] - self._held % LOOKS[0])
            self._window.append({name: values[start:end] for name, values in known.items()})
            self._held += end - start
            start = end
            for size in LOOKS:
                if self._held % size == 0:
                    changes += self._look(size)
        return changes

    def _look(self, size: int) -> list[Change]:
        """Look at the last so many samples."""
        changes = []
        for name, usual in self._reference.signals.items():
            parts = [part[name] for part in self._window if name in part]
            if not parts:
                continue
            values = np.concatenate(parts)[-size:]
            apart = distance(usual, values, self._reference.tolerances[name])
            look = Look(len(values), float(values.mean()), apart, chance(apart, len(usual), len(values)) < self._level)
            if look.drifts or size >= _SHOWN or name not in self._looks:
                self._looks[name] = look
            if look.drifts:
                self._drifted.add(name)
                if name not in self._drifting:
                    self._drifting.add(name)
                    changes.append(Change(name, True, look))
        if size == LOOKS[-1]:
            ended = self._drifting - self._drifted
            changes += [Change(name, False, self._looks[name]) for name in sorted(ended)]
            self._drifting -= ended
            self._window, self._held, self._drifted = [], 0, set()
        return changes
