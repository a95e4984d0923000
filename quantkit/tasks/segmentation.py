"""Semantic segmentation: the class of every pixel."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from quantkit.data.aggregation import Partial
from quantkit.data.placement import Placement
from quantkit.data.resizing import Size
from quantkit.evaluation.measure import Measure
from quantkit.tasks.confusion import UNTOLD, confusion_matrix, mean_intersection_over_union
from quantkit.tasks.drawing import with_classes
from quantkit.tasks.finite import finite

# Rows of the counts that are kept of each image.
_RIGHT, _TRUE, _PREDICTED = range(3)

# A level of zlib's.
_FAST = 1


@dataclass(frozen=True)
class Segmentation:
    """The task of a network whose first output is a map of scores of each class, of shape (classes, rows, columns).

    A prediction is a map of class indices, int64 of shape (rows, columns).

    Attributes:
        classes: the number of classes.
    """

    name: ClassVar[Literal["segmentation"]] = "segmentation"
    classes: int

    def decode(self, outputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The class with the highest score at every place; see ``Task``."""
        return list(finite(outputs[0], "a map of classes").argmax(axis=1))

    def packed(self, predictions: Sequence[np.ndarray]) -> Partial:
        """The maps compressed, as they are large and their areas alike; see ``Task``."""
        smallest = np.min_scalar_type(self.classes - 1)
        maps = [zlib.compress(each.astype(smallest).tobytes(), _FAST) for each in predictions]
        return {
            "sizes": np.array([each.shape for each in predictions]),
            "bytes": np.array([len(each) for each in maps]),
            "maps": np.frombuffer(b"".join(maps), np.uint8),
        }

    def unpacked(self, packed: Partial) -> Iterator[np.ndarray]:
        """See ``Task``."""
        smallest = np.min_scalar_type(self.classes - 1)
        ends = np.cumsum(packed["bytes"])
        for size, start, end in zip(packed["sizes"], ends - packed["bytes"], ends):
            values = np.frombuffer(zlib.decompress(packed["maps"][start:end].tobytes()), smallest)
            yield values.reshape(size).astype(np.int64)

    def in_image(self, prediction: np.ndarray, placed: Placement) -> np.ndarray:
        """The class of each of the image's pixels, -1 where the network does not see it; see ``Task``."""
        return placed.map_in_image(prediction, UNTOLD)

    def as_truth(self, prediction: np.ndarray, size: Size) -> np.ndarray:
        """The map itself; see ``Task``."""
        return prediction

    def compare(self, truth: np.ndarray, prediction: np.ndarray) -> np.ndarray:
        """The numbers of right, true and predicted pixels of each class, float64 of shape (3, classes)."""
        matrix = confusion_matrix(truth, prediction, self.classes)
        counts = [np.diagonal(matrix), matrix.sum(axis=1), matrix.sum(axis=0)]
        return np.array(counts, np.float64)

    def measures(self, images: Sequence[np.ndarray]) -> tuple[Measure, ...]:
        """Mean intersection over union, and pixel accuracy; see ``Task``."""
        counts = np.stack(images)

        def union(weights: np.ndarray) -> float:
            return mean_intersection_over_union(*np.tensordot(weights, counts, 1))

        def accuracy(weights: np.ndarray) -> float:
            summed = np.tensordot(weights, counts, 1)
            pixels = float(summed[_TRUE].sum())
            return float(summed[_RIGHT].sum()) / pixels if pixels else float("nan")

        return Measure("mIoU", len(images), union), Measure("pixel accuracy", len(images), accuracy)

    def agreement(self, images: Sequence[np.ndarray]) -> tuple[Measure, ...]:
        """The same measures; see ``Task``."""
        return tuple(replace(each, name=f"{each.name} of agreement") for each in self.measures(images))

    def difference(self, reference: np.ndarray, prediction: np.ndarray) -> float:
        """The share of pixels with another class."""
        return float((reference != prediction).mean())

    def draw(self, image: np.ndarray, prediction: np.ndarray) -> np.ndarray:
        """The image, tinted with a colour for each class but the first; see ``Task``."""
        return with_classes(image, prediction)


def is_segmentation(shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether the first output of these shapes, without the batch axis, is a map of scores of several classes."""
    return len(shapes[0]) == 3 and shapes[0][0] >= 2 and min(shapes[0][1:]) > 1
