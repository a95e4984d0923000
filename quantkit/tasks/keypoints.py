"""Keypoints: where a network sees the joints of a person, and how near that is to where they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quantkit.data.people import Person

# How far people who mark joints differ from each other, as COCO publishes it; of other sets of joints, one for all.
_COCO_SPREADS = (26, 25, 25, 35, 35, 79, 79, 72, 72, 62, 62, 107, 107, 87, 87, 89, 89)
_SPREAD = 0.05

_QUARTER = 0.25


@dataclass(frozen=True, eq=False)
class Keypoints:
    """The joints of a person as a network sees them.

    Attributes:
        points: x and y in pixels, float64 of shape (joints, 2).
        scores: the largest value of each joint's heatmap, float64 of shape (joints,).
    """

    points: np.ndarray
    scores: np.ndarray

    @property
    def score(self) -> float:
        """The mean score of the joints."""
        return float(self.scores.mean())


def peaks(heatmaps: np.ndarray) -> Keypoints:
    """The largest value of each heatmap, and its place, moved by a quarter of a cell towards the larger neighbour.

    The centre of the first cell is 0, as in GluonCV.

    Args:
        heatmaps: of shape (joints, rows, columns).
    """
    joints, rows, columns = heatmaps.shape
    flat = heatmaps.reshape(joints, -1)
    best = flat.argmax(axis=1)
    y, x = np.divmod(best, columns)
    points = np.stack([x, y], axis=1).astype(np.float64)
    inner = np.flatnonzero((x > 1) & (x < columns - 1) & (y > 1) & (y < rows - 1))
    of_inner = (inner, y[inner], x[inner])
    slopes = [heatmaps[_moved(of_inner, axis, 1)] - heatmaps[_moved(of_inner, axis, -1)] for axis in (2, 1)]
    points[inner] += _QUARTER * np.sign(np.stack(slopes, axis=1))
    return Keypoints(points, flat[np.arange(joints), best].astype(np.float64))


def _moved(places: tuple[np.ndarray, ...], axis: int, step: int) -> tuple[np.ndarray, ...]:
    return tuple(place + step if index == axis else place for index, place in enumerate(places))


def similarity(person: Person, seen: Keypoints) -> float:
    """The object keypoint similarity of COCO: from 0 to 1, where every visible joint is seen where it is.

    NaN where no joint is visible.
    """
    visible = person.visible
    if not visible.any():
        return float("nan")
    distances = ((seen.points - person.points) ** 2).sum(axis=1)
    reach = 2 * person.area * (2 * spreads(len(visible))) ** 2
    return float(np.exp(-distances / (reach + np.spacing(1)))[visible].mean())


def spreads(joints: int) -> np.ndarray:
    """The spread of each joint, in square roots of a person's area."""
    return np.array(_COCO_SPREADS) / 1000 if joints == len(_COCO_SPREADS) else np.full(joints, _SPREAD)
