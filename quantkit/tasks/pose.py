"""Pose estimation: where the joints of a person are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from quantkit.data.aggregation import Partial
from quantkit.data.people import Person
from quantkit.data.placement import Placement
from quantkit.data.resizing import Size
from quantkit.evaluation.measure import Measure
from quantkit.tasks.average_precision import (
    RIGHT,
    UNCOUNTED,
    WRONG,
    Matches,
    hundred_and_one_points,
    mean_average_precision,
)
from quantkit.tasks.drawing import with_points
from quantkit.tasks.finite import finite
from quantkit.tasks.keypoints import Keypoints, peaks, similarity

# The similarities at which COCO averages.
_THRESHOLDS = np.linspace(0.5, 0.95, 10)

CONFIDENT = 0.2
"""The score from which another network should see a joint where the reference sees it, as in GluonCV."""

Likeness = tuple[float, float]
"""How similar a person is to what is true (NaN where no joint is visible), and the score of what a network sees."""


@dataclass(frozen=True)
class Pose:
    """The task of a network whose first output are heatmaps of a person's joints, of shape (joints, rows, columns).

    Attributes:
        joints: how many.
        input_size: the height and the width of the network's input.
    """

    name: ClassVar[Literal["pose"]] = "pose"
    joints: int
    input_size: Size

    def decode(self, outputs: Sequence[np.ndarray]) -> list[Keypoints]:
        """The joints of each person; see ``Task``."""
        height, width = self.input_size
        cells = [width / outputs[0].shape[3], height / outputs[0].shape[2]]
        seen = [peaks(heatmaps) for heatmaps in finite(outputs[0], "heatmaps")]
        return [Keypoints(each.points * cells, each.scores) for each in seen]

    def packed(self, predictions: Sequence[Keypoints]) -> Partial:
        """See ``Task``."""
        return {
            "points": np.stack([each.points for each in predictions]),
            "scores": np.stack([each.scores for each in predictions]),
        }

    def unpacked(self, packed: Partial) -> Iterator[Keypoints]:
        """See ``Task``."""
        return map(Keypoints, packed["points"], packed["scores"])

    def in_image(self, prediction: Keypoints, placed: Placement) -> Keypoints:
        """Joints in the image; see ``Task``."""
        return Keypoints(placed.boxes_in_image(np.tile(prediction.points, 2))[:, :2], prediction.scores)

    def as_truth(self, prediction: Keypoints, size: Size) -> Person:
        """A person as large as the image, whose confident joints are visible; see ``Task``."""
        return Person(prediction.points, prediction.scores >= CONFIDENT, float(size[0] * size[1]))

    def compare(self, truth: Person, prediction: Keypoints) -> Likeness:
        """The object keypoint similarity, and the score; see ``Task``."""
        return similarity(truth, prediction), prediction.score

    def measures(self, images: Sequence[Likeness]) -> tuple[Measure, ...]:
        """AP over ten thresholds of similarity, as in COCO where boxes are known, and the mean similarity."""
        similarities, scores = np.array(images, np.float64).reshape(-1, 2).T
        order = np.argsort(-scores, kind="stable")
        visible = ~np.isnan(similarities)
        reached = np.where(similarities[order] >= _THRESHOLDS[:, None], RIGHT, WRONG)
        outcomes = np.where(visible[order], reached, UNCOUNTED).astype(np.int8)
        matches = Matches(order, outcomes, visible.astype(np.float64))
        precision = mean_average_precision("OKS AP", len(images), [matches], hundred_and_one_points)
        return precision, _mean("mean OKS", similarities)

    def agreement(self, images: Sequence[Likeness]) -> tuple[Measure, ...]:
        """The mean similarity to the reference's joints; see ``Task``."""
        return (_mean("OKS of agreement", np.array(images, np.float64).reshape(-1, 2)[:, 0]),)

    def difference(self, reference: Keypoints, prediction: Keypoints) -> float:
        """What lacks to the similarity 1; 0 where the reference sees no joint."""
        likeness = similarity(self.as_truth(reference, self.input_size), prediction)
        return 0.0 if np.isnan(likeness) else 1 - likeness

    def draw(self, image: np.ndarray, prediction: Keypoints) -> np.ndarray:
        """The image with a dot at each confident joint; see ``Task``."""
        return with_points(image, prediction.points, prediction.scores >= CONFIDENT)


def _mean(name: str, similarities: np.ndarray) -> Measure:
    visible = ~np.isnan(similarities)
    values = np.where(visible, similarities, 0.0)

    def weighted(weights: np.ndarray) -> float:
        counted = float(weights @ visible)
        return float(weights @ values) / counted if counted else float("nan")

    return Measure(name, len(similarities), weighted)


def is_pose(shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether the first output of these shapes, without the batch axis, are heatmaps."""
    return len(shapes[0]) == 3 and min(shapes[0][1:]) > 1
