"""People in images: their joints, and the part of the image that a pose network reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quantkit.data.resizing import Size

# What GluonCV's pose networks see: the box, and a quarter more.
_MARGIN = 1.25


@dataclass(frozen=True, eq=False)
class Person:
    """A person in an image, or in a part of it.

    Attributes:
        points: x and y of each joint in pixels, float64 of shape (joints, 2).
        visible: whether each joint is marked, booleans of shape (joints,).
        area: of the person, in pixels.
    """

    points: np.ndarray
    visible: np.ndarray
    area: float


@dataclass(frozen=True)
class Region:
    """A part of an image, which may reach beyond it; edges in whole pixels."""

    left: int
    top: int
    width: int
    height: int

    @property
    def size(self) -> Size:
        """The height and the width."""
        return self.height, self.width

    def cut(self, image: np.ndarray) -> np.ndarray:
        """The part's pixels, black beyond the image.

        Args:
            image: uint8 of shape (height, width, 3).
        """
        part = np.zeros((self.height, self.width, 3), np.uint8)
        rows, columns = (
            slice(max(start, 0), max(min(start + length, limit), 0))
            for start, length, limit in zip((self.top, self.left), self.size, image.shape)
        )
        inside = image[rows, columns]
        top, left = rows.start - self.top, columns.start - self.left
        part[top : top + inside.shape[0], left : left + inside.shape[1]] = inside
        return part

    def person(self, person: Person) -> Person:
        """A person in the image as one in this part."""
        return Person(person.points - [self.left, self.top], person.visible, person.area)


def region_around(box: Sequence[float], input_size: Size) -> Region:
    """The part of an image that shows a box, a quarter larger, in the proportions of a network's input.

    Args:
        box: left, top, width, height in pixels.
        input_size: the height and the width of the input.
    """
    left, top, width, height = box
    proportion = input_size[1] / input_size[0]
    whole_width, whole_height = max(width, height * proportion), max(height, width / proportion)
    sides = [max(1, round(side * _MARGIN)) for side in (whole_width, whole_height)]
    centre = (left + width / 2, top + height / 2)
    return Region(round(centre[0] - sides[0] / 2), round(centre[1] - sides[1] / 2), *sides)
