"""Which detections are right, by the rules of COCO and its own program."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any, Optional

import numpy as np

from quantkit.extras import using
from quantkit.tasks.average_precision import RIGHT, UNCOUNTED, WRONG, Matches
from quantkit.tasks.voc_map import Seen

_MOST = 100

# pycocotools takes the number 0 for "nothing matched".
_FIRST = 1


def coco_matches(images: Sequence[Seen], classes: int) -> list[Matches]:
    """What became of the detections of each class, at the overlaps 0.5, 0.55, ..., 0.95.

    pycocotools matches them: the 100 best of each image and class; ignored objects are its crowds, several detections
    of which are not counted.

    Raises:
        ExtraMissing: pycocotools is not installed.
    """
    with using("tasks", "average precisions of COCO"):
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval

    entries = {
        "images": [{"id": _FIRST + place} for place in range(len(images))],
        "categories": [{"id": _FIRST + label} for label in range(classes)],
    }
    sides = [COCO(), COCO()]
    # The program tells what it does on standard output.
    with redirect_stdout(io.StringIO()):
        for side, objects in zip(sides, (_truths(images), _detections(images))):
            side.dataset = {**entries, "annotations": list(objects)}
            side.createIndex()
        judge = COCOeval(*sides, "bbox")
        judge.params.areaRng, judge.params.areaRngLbl = judge.params.areaRng[:1], judge.params.areaRngLbl[:1]
        judge.params.maxDets = [_MOST]
        judge.evaluate()
    thresholds, results = len(judge.params.iouThrs), judge.evalImgs
    return [
        _class_matches(results[label * len(images) : (label + 1) * len(images)], thresholds) for label in range(classes)
    ]


def _truths(images: Sequence[Seen]) -> Iterator[dict[str, Any]]:
    number = _FIRST
    for place, (truth, _) in enumerate(images):
        for corners, label, ignored in zip(truth.corners, truth.labels, truth.ignored):
            yield _entry(number, place, corners, label) | {"iscrowd": int(ignored)}
            number += 1


def _detections(images: Sequence[Seen]) -> Iterator[dict[str, Any]]:
    number = _FIRST
    for place, (_, detections) in enumerate(images):
        for corners, label, score in zip(detections.boxes, detections.labels, detections.scores):
            yield _entry(number, place, corners, label) | {"score": float(score), "iscrowd": 0}
            number += 1


def _entry(number: int, place: int, corners: np.ndarray, label: int) -> dict[str, Any]:
    left, top, right, bottom = corners.tolist()
    return {
        "id": number,
        "image_id": _FIRST + place,
        "category_id": _FIRST + int(label),
        "bbox": [left, top, right - left, bottom - top],
        "area": (right - left) * (bottom - top),
    }


def _class_matches(results: Sequence[Optional[Mapping[str, Any]]], thresholds: int) -> Matches:
    """What pycocotools says of a class, image by image; None of images without the class."""
    scores, places, outcomes = [np.empty(0)], [np.empty(0, np.int64)], [np.empty((thresholds, 0), np.int8)]
    objects = np.zeros(len(results))
    for place, result in enumerate(results):
        if result is None:
            continue
        objects[place] = (np.asarray(result["gtIgnore"]) == 0).sum()
        matched, ignored = (np.asarray(result[key], bool) for key in ("dtMatches", "dtIgnore"))
        scores.append(np.asarray(result["dtScores"], np.float64))
        places.append(np.full(matched.shape[1], place))
        outcomes.append(np.where(ignored, UNCOUNTED, np.where(matched, RIGHT, WRONG)).astype(np.int8))
    order = np.argsort(-np.concatenate(scores), kind="stable")
    return Matches(np.concatenate(places)[order], np.concatenate(outcomes, axis=1)[:, order], objects)
