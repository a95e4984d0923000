"""Which detections are right, by the rules of PASCAL VOC."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quantkit.data.boxes import Boxes
from quantkit.tasks.average_precision import RIGHT, UNCOUNTED, WRONG, Matches
from quantkit.tasks.detections import Detections, overlaps

_LEAST_OVERLAP = 0.5

Seen = tuple[Boxes, Detections]
"""The objects in an image, and what a network sees there."""

Part = tuple[np.ndarray, np.ndarray, np.ndarray]
"""The detections of a class in an image: their scores, the index of the image, and what became of them."""

_NOTHING: Part = (np.empty(0), np.empty(0, np.int64), np.empty(0, np.int8))


def voc_matches(images: Sequence[Seen], classes: int) -> list[Matches]:
    """What became of the detections of each class.

    A detection belongs to the object of its class that it overlaps most, if by half or more (intersection over union).
    The first of an object's detections is right, later ones are wrong; those of ignored objects are not counted
    (Everingham et al. 2010, "The Pascal Visual Object Classes Challenge").
    """
    by_class: list[list[Part]] = [[_NOTHING] for _ in range(classes)]
    objects = np.zeros((classes, len(images)))
    for place, (truth, detections) in enumerate(images):
        for label in {*truth.labels.tolist(), *detections.labels.tolist()} & {*range(classes)}:
            own, seen = truth.labels == label, detections.labels == label
            objects[label, place] = (own & ~truth.ignored).sum()
            outcomes = _outcomes(detections.boxes[seen], truth.corners[own], truth.ignored[own])
            by_class[label].append((detections.scores[seen], np.full(len(outcomes), place), outcomes))
    return [_joined(parts, counts) for parts, counts in zip(by_class, objects)]


def _joined(parts: Sequence[Part], objects: np.ndarray) -> Matches:
    """What became of the detections of a class in all images, by descending score."""
    scores, places, outcomes = map(np.concatenate, zip(*parts))
    order = np.argsort(-scores, kind="stable")
    return Matches(places[order], outcomes[order][None], objects)


def _outcomes(corners: np.ndarray, objects: np.ndarray, ignored: np.ndarray) -> np.ndarray:
    """What becomes of the detections of one class in one image, by descending score."""
    if not len(objects):
        return np.full(len(corners), WRONG, np.int8)
    shared = overlaps(corners, objects)
    taken: set[int] = set()
    outcomes = []
    for best, overlap in zip(shared.argmax(axis=1).tolist(), shared.max(axis=1)):
        if overlap < _LEAST_OVERLAP:
            outcomes.append(WRONG)
        elif ignored[best]:
            outcomes.append(UNCOUNTED)
        else:
            outcomes.append(WRONG if best in taken else RIGHT)
            taken.add(best)
    return np.array(outcomes, np.int8)
