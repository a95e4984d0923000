"""The objects in an image: boxes with their classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from quantkit.data.resizing import Size
from quantkit.errors import DataError

# Tools round in different ways; a box may reach so far beyond the image, in pixels, and is cut off.
_BEYOND = 1.0

_SHOWN = 100

BoxCorners = Literal["edges", "pixels"]
"""What the corners of a network's boxes are.

``edges``: an image of width w reaches from 0 to w. ``pixels``: the first and the last pixel of the image in the box,
counted from 0, so that right and bottom lack a pixel to the edges.
"""


@dataclass(frozen=True, eq=False)
class Boxes:
    """The objects in an image.

    Attributes:
        size: of the image.
        corners: left, top, right and bottom edges in pixels, float64 of shape (boxes, 4); an image of width w reaches
            from 0 to w.
        labels: class indices, int64 of shape (boxes,).
        ignored: booleans of shape (boxes,): detections of these count neither for nor against a network. They are
            VOC's difficult objects and COCO's crowds.
    """

    size: Size
    corners: np.ndarray
    labels: np.ndarray
    ignored: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)


def boxes_of(
    size: Size,
    corners: Sequence[Sequence[float]],
    labels: Sequence[int],
    ignored: Sequence[bool],
    where: str,
    may_be_empty: bool = False,
) -> Boxes:
    """Objects from lists, with boxes that lie in the image; what is up to a pixel outside is cut off.

    Args:
        size: of the image.
        corners: left, top, right and bottom edges of each box.
        labels: the class index of each.
        ignored: whether detections of each count.
        where: names the image in errors.
        may_be_empty: whether a box may have a width or a height of 0.

    Raises:
        DataError: a box is empty, or reaches out of the image.
    """
    height, width = size
    array = np.array(corners, np.float64).reshape(-1, 4)
    limits = np.array([width, height, width, height], np.float64)
    clipped = np.clip(array, 0, limits)
    outside = ((array < -_BEYOND) | (array > limits + _BEYOND)).any(axis=1)
    empty = (array[:, 2:] < array[:, :2]).any(axis=1) if may_be_empty else is_empty(clipped)
    for bad, what, remedy in (
        (outside, f"reaches out of the image of {width}x{height} pixels", "correct it, or the size of the image"),
        (empty, "holds no pixel", "give left < right and top < bottom, or remove the object"),
    ):
        if bad.any():
            number = int(np.flatnonzero(bad)[0])
            edges = ", ".join(f"{value:g}" for value in array[number])
            raise DataError(f"object {number + 1} of {where}, from left to bottom {edges}, {what}; {remedy}")
    return Boxes(size, clipped, np.array(labels, np.int64), np.array(ignored, bool))


def is_empty(corners: np.ndarray) -> np.ndarray:
    """Whether boxes hold no pixel: booleans of shape (boxes,), of corners of shape (boxes, 4)."""
    empty: np.ndarray = (corners[:, 2:] <= corners[:, :2]).any(axis=1)
    return empty


def class_indices(used: Iterable[str], known: Sequence[str], where: str) -> dict[str, int]:
    """The index of each class by its name.

    Args:
        used: the names of the classes that objects have.
        known: the names of all classes, in the order of their indices.
        where: names the file or the data in errors.

    Raises:
        DataError: a class that objects have is not known, or two are called so.
    """
    counts = Counter(known)
    indices = {name: index for index, name in enumerate(known)}
    for name in used:
        if name not in counts:
            raise DataError(
                f"{where} has an object of class {name[:_SHOWN]!r}, which is none of the {len(known)} classes "
                f"({', '.join(known[:5])}, ...); correct it, or give the network's classes (`labels` in its card)"
            )
        if counts[name] > 1:
            raise DataError(
                f"{where} has an object of class {name[:_SHOWN]!r}, and {counts[name]} of the {len(known)} classes are "
                "called so; give each a name of its own (in the file, or `labels` in the network's card)"
            )
    return indices


def check_size(size: Size, image: np.ndarray, where: str) -> None:
    """Check that an image has the size that its objects were marked in; ``where`` names it.

    Raises:
        DataError: it has another.
    """
    if image.shape[:2] != size:
        raise DataError(
            f"image {where} has {image.shape[1]}x{image.shape[0]} pixels as it is shown, its annotation says "
            f"{size[1]}x{size[0]}; annotate the image as it is, or store it without a camera's orientation"
        )
