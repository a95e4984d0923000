"""Average precision: how well detections rank right before wrong ones, over resampled images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from quantkit.evaluation.measure import Measure

RIGHT, WRONG, UNCOUNTED = 1, 0, -1
"""What became of a detection; those of ignored objects are not counted."""

Interpolation = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Average precisions, of shape (thresholds,), from recalls and precisions of shape (thresholds, detections)."""

# As floats they lie where the publishers of figures have them: 0.3 is a little more than 3/10 there.
_ELEVEN = np.arange(0.0, 1.1, 0.1)
_HUNDRED_AND_ONE = np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True, eq=False)
class Matches:
    """The detections of one class in all images, by descending score, and what became of them.

    Attributes:
        images: the index of each one's image, of shape (detections,).
        outcomes: ``RIGHT``, ``WRONG`` or ``UNCOUNTED`` at each threshold of overlap, of shape (thresholds, detections).
        objects: the number of objects of the class in each image that count, of shape (images,).
    """

    images: np.ndarray
    outcomes: np.ndarray
    objects: np.ndarray


def mean_average_precision(name: str, images: int, classes: Sequence[Matches], interpolate: Interpolation) -> Measure:
    """The mean over classes of average precision; over thresholds, too, if there are several.

    A class without objects is left out, as in the publishers' own programs.
    """
    told = [np.flatnonzero((each.outcomes != WRONG).any(axis=0)) for each in classes]
    curves = [(each, places, each.outcomes[:, places]) for each, places in zip(classes, told)]

    def weighted(weights: np.ndarray) -> float:
        values = [_average_precision(*each, weights, interpolate) for each in curves]
        known = [value for value in values if value is not None]
        return float(np.mean(known)) if known else float("nan")

    return Measure(name, images, weighted)


def _average_precision(
    matches: Matches, places: np.ndarray, outcomes: np.ndarray, weights: np.ndarray, interpolate: Interpolation
) -> float | None:
    """The average precision of a class; None if it has no objects.

    Curves have a point at each of ``places``, where a detection is not wrong at every threshold; ``outcomes`` are those
    there. Between them recall stays and precision falls, and most detections lie there.
    """
    objects = float(matches.objects @ weights)
    if not objects:
        return None
    counts = weights[matches.images]
    own = counts[places]
    between = np.cumsum(counts)[places] - np.cumsum(own)
    right = np.cumsum((outcomes == RIGHT) * own, axis=1)
    counted = between + np.cumsum((outcomes != UNCOUNTED) * own, axis=1)
    precision = np.divide(right, counted, out=np.zeros_like(right), where=counted > 0)
    return float(interpolate(right / objects, precision).mean())


def area(recall: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """The area under the curve, as in VOC from 2010 on."""
    steps = np.diff(recall, axis=1, prepend=0.0)
    areas: np.ndarray = (steps * _falling(precision)).sum(axis=1)
    return areas


def eleven_points(recall: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """The mean over the recalls 0, 0.1, ..., 1, as in VOC 2007."""
    return _at(_ELEVEN, recall, precision)


def hundred_and_one_points(recall: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """The mean over the recalls 0, 0.01, ..., 1, as in COCO."""
    return _at(_HUNDRED_AND_ONE, recall, precision)


def _falling(precision: np.ndarray) -> np.ndarray:
    """The best precision at this recall or a higher one."""
    best: np.ndarray = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    return best


def _at(points: np.ndarray, recall: np.ndarray, precision: np.ndarray) -> np.ndarray:
    ended = np.pad(_falling(precision), ((0, 0), (0, 1)))
    return np.array([row[np.searchsorted(reached, points)].mean() for row, reached in zip(ended, recall)])
