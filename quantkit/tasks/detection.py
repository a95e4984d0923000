"""Detection: boxes with classes and scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Optional

import numpy as np

from quantkit.data.aggregation import Partial
from quantkit.data.boxes import BoxCorners, Boxes
from quantkit.data.placement import Placement
from quantkit.data.resizing import Size
from quantkit.errors import UserError
from quantkit.evaluation.measure import Measure
from quantkit.tasks.average_precision import (
    Matches,
    area,
    eleven_points,
    hundred_and_one_points,
    mean_average_precision,
)
from quantkit.tasks.coco_ap import coco_matches
from quantkit.tasks.detections import (
    Detections,
    as_objects,
    detections_of,
    difference,
    in_image,
    packed,
    unpacked,
)
from quantkit.tasks.drawing import with_boxes
from quantkit.tasks.suppression import MAX_OVERLAP, suppressed
from quantkit.tasks.voc_map import Seen, voc_matches

Form = Literal["suppressed", "all boxes"]
"""What a detector puts out.

``suppressed``: class indices, scores and boxes in pixels of the input, each of shape (boxes, 1 or 4), with -1 as the
class of what is no detection; the form of GluonCV's SSD, YOLOv3 and R-CNN. CenterNet's indices and scores have the
shape (boxes,).

``all boxes``: the scores of the background and of each class, of shape (boxes, 1 + classes), and the boxes in shares of
the input's sides, of shape (boxes, 4); non-maximum suppression is left to the caller.
"""

Rules = Literal["voc", "coco"]
"""Whose rules detections are judged by."""

CONFIDENT = 0.5
"""The score from which on another network should see what the reference sees."""

# The largest sets of data have some thousands.
_MOST_CLASSES = 10_000


@dataclass(frozen=True)
class Detection:
    """The task of a detector.

    Attributes:
        form: what the network puts out.
        input_size: the height and the width of its input.
        classes: the names of its classes; empty if they are unknown.
        number: of its classes; None if it is unknown.
        rules: whose rules it is judged by.
        box_corners: what the corners of the boxes are that the network puts out.
        max_overlap: the largest intersection over union of two boxes of a class that are kept, where suppression is
            left to the caller.
    """

    name: ClassVar[Literal["detection"]] = "detection"
    form: Form
    input_size: Size
    classes: tuple[str, ...]
    number: Optional[int]
    rules: Rules = "voc"
    box_corners: BoxCorners = "edges"
    max_overlap: float = MAX_OVERLAP

    def decode(self, outputs: Sequence[np.ndarray]) -> list[Detections]:
        """The detections of each image, without those that hold NaN or infinite values; see ``Task``."""
        if self.form == "suppressed":
            ids, scores, boxes = outputs[:3]
            return [_valid(boxes[image], scores[image].ravel(), ids[image].ravel()) for image in range(len(ids))]
        scores, boxes = _scores_and_boxes(outputs)
        height, width = self.input_size
        sides = [width, height, width, height]
        finite = np.isfinite(boxes).all(axis=2) & np.isfinite(scores).all(axis=2)
        return [
            suppressed(corners[kept].astype(np.float64) * sides, each[kept, 1:], self.max_overlap)
            for corners, each, kept in zip(boxes, scores, finite)
        ]

    def packed(self, predictions: Sequence[Detections]) -> Partial:
        """See ``Task``."""
        return packed(predictions)

    def unpacked(self, packed: Partial) -> Iterator[Detections]:
        """See ``Task``."""
        return unpacked(packed)

    def in_image(self, prediction: Detections, placed: Placement) -> Detections:
        """Detections in the image, with edges; see ``Task``."""
        return in_image(prediction, placed, self.box_corners)

    def as_truth(self, prediction: Detections, size: Size) -> Boxes:
        """Detections as objects, ``ignored`` where the score is below ``CONFIDENT``; see ``Task``."""
        return as_objects(prediction, size, CONFIDENT)

    def compare(self, truth: Boxes, prediction: Detections) -> Seen:
        """Both; see ``Task``."""
        return truth, prediction

    def measures(self, images: Sequence[Seen]) -> tuple[Measure, ...]:
        """By VOC's rules mAP at an overlap of one half, as of 2012 and of 2007; by COCO's, AP and AP at one half."""
        count = len(images)
        if self.rules == "voc":
            matches = voc_matches(images, self._number(images))
            return (
                mean_average_precision("VOC12 mAP", count, matches, area),
                mean_average_precision("VOC07 mAP", count, matches, eleven_points),
            )
        matches = coco_matches(images, self._number(images))
        at_half = [Matches(each.images, each.outcomes[:1], each.objects) for each in matches]
        return (
            mean_average_precision("COCO AP", count, matches, hundred_and_one_points),
            mean_average_precision("COCO AP50", count, at_half, hundred_and_one_points),
        )

    def agreement(self, images: Sequence[Seen]) -> tuple[Measure, ...]:
        """VOC12's mAP against the reference's confident detections; see ``Task``."""
        matches = voc_matches(images, self._number(images))
        return (mean_average_precision("mAP of agreement", len(images), matches, area),)

    def difference(self, reference: Detections, prediction: Detections) -> float:
        """See ``detections.difference``."""
        return difference(reference, prediction)

    def _number(self, images: Sequence[Seen]) -> int:
        """The number of classes, or of those that occur.

        Raises:
            UserError: these are more than any detector has.
        """
        if self.number is not None:
            return self.number
        number = 1 + max((int(side.labels.max(initial=-1)) for image in images for side in image), default=-1)
        if number > _MOST_CLASSES:
            raise UserError(
                f"the network puts out a detection of class {number - 1}, more than any detector has; give the task "
                "that it is for (--task, `task` in its card)"
            )
        return number

    def draw(self, image: np.ndarray, prediction: Detections) -> np.ndarray:
        """The image with a frame around each detection; see ``Task``."""
        return with_boxes(image, prediction, self.classes)


def detection_form(shapes: Sequence[tuple[int, ...]]) -> Optional[Form]:
    """What a network with outputs of these shapes, without the batch axis, puts out; None if that is no detections."""
    if len(shapes) >= 3:
        number = shapes[0][0] if shapes[0] else 0
        if [*shapes[:3]] in ([(number, 1), (number, 1), (number, 4)], [(number,), (number,), (number, 4)]):
            return "suppressed"
    if len(shapes) == 2 and all(len(shape) == 2 for shape in shapes) and shapes[0][0] == shapes[1][0]:
        first, second = shapes[0][1], shapes[1][1]
        if 4 in (first, second) and min(first, second) >= 2:
            return "all boxes"
    return None


def classes_of(form: Form, shapes: Sequence[tuple[int, ...]]) -> Optional[int]:
    """The number of classes of a network with such outputs; None if these do not tell."""
    if form == "suppressed":
        return None
    return shapes[1 if _boxes_first(shapes) else 0][1] - 1


def _scores_and_boxes(outputs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    first, second = outputs
    return (second, first) if _boxes_first([first.shape[1:], second.shape[1:]]) else (first, second)


def _boxes_first(shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether boxes come before scores; where both have four columns, scores come first."""
    return shapes[1][1] != 4


def _valid(corners: np.ndarray, scores: np.ndarray, ids: np.ndarray) -> Detections:
    """Those of a class, in finite numbers: to pycocotools, a box of NaN matches every object."""
    kept = (ids >= 0) & np.isfinite(ids) & np.isfinite(scores) & np.isfinite(corners).all(axis=1)
    return detections_of(corners[kept], scores[kept], ids[kept])
