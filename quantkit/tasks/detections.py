"""Detections: what a detector says of an image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from quantkit.data.aggregation import Partial
from quantkit.data.boxes import BoxCorners, Boxes
from quantkit.data.placement import Placement
from quantkit.data.resizing import Size


@dataclass(frozen=True, eq=False)
class Detections:
    """The objects that a network sees in an image, by descending score.

    Attributes:
        boxes: left, top, right and bottom edges in pixels, float64 of shape (detections, 4).
        scores: from 0 to 1, float64 of shape (detections,).
        labels: class indices, int64 of shape (detections,).
    """

    boxes: np.ndarray
    scores: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.scores)


def detections_of(boxes: np.ndarray, scores: np.ndarray, labels: np.ndarray) -> Detections:
    """Detections in any order, in theirs; of equal scores the first ranks first."""
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    return Detections(
        np.asarray(boxes, np.float64)[order],
        np.asarray(scores, np.float64)[order],
        np.asarray(labels).astype(np.int64)[order],
    )


def packed(images: Sequence[Detections]) -> Partial:
    """The detections of images as arrays, with their number in each; see ``Task.packed``."""
    return {
        "counts": np.array([len(each) for each in images]),
        "boxes": np.concatenate([each.boxes for each in images]),
        "scores": np.concatenate([each.scores for each in images]),
        "labels": np.concatenate([each.labels for each in images]),
    }


def unpacked(arrays: Partial) -> Iterator[Detections]:
    """The detections of each image; see ``Task.unpacked``."""
    ends = np.cumsum(arrays["counts"])
    for start, end in zip(ends - arrays["counts"], ends):
        yield Detections(*(arrays[name][start:end] for name in ("boxes", "scores", "labels")))


def above(detections: Detections, least: float) -> Detections:
    """Those with a score of at least ``least``."""
    kept = detections.scores >= least
    return Detections(detections.boxes[kept], detections.scores[kept], detections.labels[kept])


def in_image(detections: Detections, placed: Placement, corners: BoxCorners = "edges") -> Detections:
    """Detections in a network's input as those in the image, with edges, cut at its borders.

    Args:
        detections: in the input.
        placed: where the image is in the input.
        corners: what the corners of the network's boxes are.
    """
    height, width = placed.size
    edges = detections.boxes if corners == "edges" else placed.edges_of_pixels(detections.boxes)
    boxes = placed.boxes_in_image(edges)
    return replace(detections, boxes=np.clip(boxes, 0, [width, height, width, height]))


def as_objects(detections: Detections, size: Size, confident: float) -> Boxes:
    """Detections as objects that another network should see.

    Those with a score below ``confident`` are ``ignored``: it does not matter whether the other sees them.
    """
    return Boxes(size, detections.boxes, detections.labels, detections.scores < confident)


def overlaps(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The intersection over union of each box with each other.

    Args:
        first: of shape (n, 4): left, top, right, bottom.
        second: of shape (m, 4).

    Returns:
        float64 of shape (n, m), 0 where both boxes are empty.
    """
    start = np.maximum(first[:, None, :2], second[None, :, :2])
    end = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.clip(end - start, 0, None).prod(axis=2)
    areas = [np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(axis=1) for boxes in (first, second)]
    united = areas[0][:, None] + areas[1][None, :] - shared
    shares: np.ndarray = np.divide(shared, united, out=np.zeros_like(shared), where=united > 0)
    return shares


def difference(first: Detections, second: Detections) -> float:
    """How far two networks' detections of an image are apart, from 0 (alike) to 1 (nothing in common).

    Detections count by their scores. Each is in the other's to the extent of its overlap with one of its class there,
    and of the smaller score of the two.
    """
    total = float(first.scores.sum() + second.scores.sum())
    if not total:
        return 0.0
    same = first.labels[:, None] == second.labels[None, :]
    smaller = np.minimum(first.scores[:, None], second.scores[None, :])
    shared = np.where(same, overlaps(first.boxes, second.boxes) * smaller, 0.0)
    again = shared.max(axis=1, initial=0.0).sum() + shared.max(axis=0, initial=0.0).sum()
    return max(0.0, 1.0 - float(again) / total)
