"""Scores over a set of images, their intervals, and what one network loses against another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Optional

import numpy as np

from quantkit.evaluation.paired import Verdict, interval_verdict
from quantkit.units import percent

_RESAMPLES = 1_000


@dataclass(frozen=True, eq=False)
class Measure:
    """A score from 0 to 1 over a set of images.

    Attributes:
        name: what it is called, as in "mAP".
        images: the number of images.
        weighted: the score if each image occurs as often as a weight says; the weights are float64 of shape (images,).
            NaN where there is nothing to score.
    """

    name: str
    images: int
    weighted: Callable[[np.ndarray], float]

    @property
    def value(self) -> float:
        """The score where each image occurs once."""
        return self.weighted(np.ones(self.images))


@dataclass(frozen=True)
class Score:
    """A score from 0 to 1 with its 95 % interval; None where there is nothing to score."""

    name: str
    value: Optional[float]
    low: Optional[float]
    high: Optional[float]

    @property
    def text(self) -> str:
        """The score in words."""
        if self.value is None or self.low is None or self.high is None:
            return f"{self.name}: nothing to score"
        return f"{self.name} {percent(self.value)} [{percent(self.low)}, {percent(self.high)}]"


@dataclass(frozen=True)
class ScoreDrop:
    """What a network loses against another on the same images, in points, with its 95 % interval."""

    name: str
    points: Optional[float]
    low: Optional[float]
    high: Optional[float]

    @property
    def verdict(self) -> Verdict:
        """Where the network stands: ``ahead`` or ``behind`` if the interval does not contain 0."""
        if self.low is None or self.high is None:
            return "not distinguishable"
        return interval_verdict(-self.high, -self.low)


def over_groups(measures: Iterable[Measure], groups: Optional[Sequence[int]]) -> tuple[Measure, ...]:
    """The same measures, whose intervals are over groups of images.

    Args:
        measures: of images.
        groups: the number of each image's group, such as the photograph that it is a part of; None: each is one.
    """
    if groups is None:
        return tuple(measures)
    numbers, places = np.unique(groups, return_inverse=True)
    return tuple(Measure(each.name, len(numbers), _spread(each, places)) for each in measures)


def _spread(measure: Measure, places: np.ndarray) -> Callable[[np.ndarray], float]:
    return lambda weights: measure.weighted(weights[places])


def score(measure: Measure) -> Score:
    """A score and the percentile bootstrap's interval over images (Efron 1979), the same at every call."""
    values = [measure.weighted(weights) for weights in _resamples(measure.images)]
    # Sums of shares may round to more than 1.
    value, low, high = (
        None if each is None else min(max(each, 0.0), 1.0) for each in _estimate(measure.value, np.array(values))
    )
    return Score(measure.name, value, low, high)


def score_drop(network: Measure, other: Measure) -> ScoreDrop:
    """What a network loses against another, with the percentile bootstrap's interval over the images of both."""
    losses = [100 * (other.weighted(weights) - network.weighted(weights)) for weights in _resamples(network.images)]
    return ScoreDrop(network.name, *_estimate(100 * (other.value - network.value), np.array(losses)))


def _resamples(images: int) -> Iterator[np.ndarray]:
    """How often each image occurs in draws of as many images with replacement."""
    random = np.random.default_rng(0)
    for _ in range(_RESAMPLES):
        yield np.bincount(random.integers(0, images, images), minlength=images).astype(np.float64)


def _estimate(value: float, resampled: np.ndarray) -> tuple[Optional[float], Optional[float], Optional[float]]:
    """A value and its interval; resamples in which nothing can be scored are left out."""
    known = resampled[np.isfinite(resampled)]
    if not isfinite(value) or not known.size:
        return None, None, None
    low, high = np.quantile(known, [0.025, 0.975])
    return value, float(low), float(high)
