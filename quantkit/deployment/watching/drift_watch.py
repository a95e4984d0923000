"""Telling drift: the signals of watched samples tested against those of calibration, over and over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Optional

import numpy as np

from quantkit.drift.reference import DriftReference
from quantkit.drift.shares import chance_of_fewer, most_fallen
from quantkit.drift.signals import AGREEMENT, Signals
from quantkit.drift.two_samples import chance, distance, least_distance

FALSE_ALARM = 1e-6
"""The approximate probability that the test of any signal at one size rejects independent samples like those of
calibration."""

SIZES = (16, 64, 256, 1024)
"""The samples of a test. Windows of one size do not overlap; small ones detect large changes soon, large ones small
changes."""

# A test of fewer samples is not reported in place of one of so many, unless it rejects.
_REPORTED = 64

# A test of fewer samples does not end a drift.
_SETTLING = 256


@dataclass(frozen=True)
class SignalStatus:
    """A signal in its last test.

    Attributes:
        samples: how many were tested together.
        mean: of the signal over them.
        distance: of its distribution from that of calibration, from 0 to 1.
        drifts: whether that is too far for chance.
    """

    samples: int
    mean: float
    distance: float
    drifts: bool


@dataclass(frozen=True)
class Change:
    """A signal that began to drift, or no longer does, and the test that showed it."""

    signal: str
    begins: bool
    status: SignalStatus


class DriftWatch:
    """Tests the signals of samples against a reference.

    A signal drifts if the test of Kolmogorov and Smirnov rejects, at a level that is shared among the signals
    (Bonferroni's correction), that it has the distribution that it had in calibration. Such tests of single signals
    find shifts at least as well as those of all together (Rabanser, Guennemann and Lipton, "Failing Loudly: An
    Empirical Study of Methods for Detecting Dataset Shift", NeurIPS 2019). The drift ends with a test of as many
    samples as it took to find it, and of 256 or more, that does not reject.

    The agreement with FP32, a share of samples, drifts if it has fallen by Fisher's exact test, at the same level; its
    distance is by how much.
    """

    def __init__(self, reference: DriftReference) -> None:
        """Begin with no sample."""
        self.reference = reference
        level = FALSE_ALARM / len(reference.signals)
        compare = {
            name: _fallen(values) if name == AGREEMENT else _apart(values, reference.tolerances[name])
            for name, values in reference.signals.items()
        }
        self._tests = {name: _SignalTest(each, level) for name, each in compare.items()}
        self.smallest_distances = {
            name: _least_fall(values, level) if name == AGREEMENT else least_distance(level, len(values), SIZES[-1])
            for name, values in reference.signals.items()
        }
        """The smallest distance of each signal that can be detected, above 1 if none can; it falls with the samples of
        calibration."""

    @property
    def signals(self) -> Mapping[str, SignalStatus]:
        """The signals that were tested."""
        return {name: test.status for name, test in self._tests.items() if test.status is not None}

    @property
    def drifting(self) -> frozenset[str]:
        """The signals that drift."""
        return frozenset(name for name, test in self._tests.items() if test.drifts)

    def add(self, signals: Signals) -> list[Change]:
        """Add the signals of some samples; values that are not finite, and unknown signals, are left out.

        Returns:
            What began to drift, or no longer does.
        """
        changes = []
        for name, values in signals.items():
            if name in self._tests:
                found = self._tests[name].add(values[np.isfinite(values)])
                changes += [Change(name, status.drifts, status) for status in found]
        return changes


_Compare = Callable[[np.ndarray], tuple[float, float]]
"""The distance of values from those of calibration, and the chance of one so large."""


def _apart(reference: np.ndarray, tolerance: float) -> _Compare:
    def compare(values: np.ndarray) -> tuple[float, float]:
        statistic = distance(reference, values, tolerance)
        return statistic, chance(statistic, len(reference), len(values))

    return compare


def _fallen(reference: np.ndarray) -> _Compare:
    before, of_before = int(reference.sum()), len(reference)

    def compare(values: np.ndarray) -> tuple[float, float]:
        fall = max(0.0, float(reference.mean() - values.mean()))
        return fall, chance_of_fewer(before, of_before, int(values.sum()), len(values))

    return compare


def _least_fall(reference: np.ndarray, level: float) -> float:
    most = most_fallen(level, int(reference.sum()), len(reference), SIZES[-1])
    return float(reference.mean() - most / SIZES[-1]) if most >= 0 else inf


class _SignalTest:
    """Tests one signal."""

    def __init__(self, compare: _Compare, level: float) -> None:
        self._compare, self._level = compare, level
        self._values = np.empty(SIZES[-1])
        self._held = 0
        # The samples that a test must have to end the drift; 0: there is none.
        self._settling = 0
        self.status: Optional[SignalStatus] = None

    @property
    def drifts(self) -> bool:
        return self._settling > 0

    def add(self, values: np.ndarray) -> list[SignalStatus]:
        """Add values; returns the tests by which a drift began or ended."""
        changes, start = [], 0
        while start < len(values):
            end = min(len(values), start + SIZES[0] - self._held % SIZES[0])
            self._values[self._held : self._held + end - start] = values[start:end]
            self._held += end - start
            start = end
            for size in SIZES:
                if self._held % size == 0:
                    changes += self._test(size)
            self._held %= SIZES[-1]
        return changes

    def _test(self, size: int) -> list[SignalStatus]:
        values = self._values[self._held - size : self._held]
        statistic, likelihood = self._compare(values)
        rejects = likelihood < self._level
        status = SignalStatus(size, float(values.mean()), statistic, rejects)
        if rejects or size >= _REPORTED or self.status is None:
            self.status = status
        begins, ends = rejects and not self.drifts, not rejects and 0 < self._settling <= size
        if rejects:
            self._settling = max(size, self._settling, _SETTLING)
        elif ends:
            self._settling = 0
        return [status] if begins or ends else []
