"""Where preprocessing puts an image's pixels in a network's input, and the way back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

import numpy as np

from quantkit.data.preprocess import Preprocess
from quantkit.data.resizing import Size, centre_offset, letterbox_size, short_side_size


@dataclass(frozen=True)
class Placement:
    """An image in a network's input: ``input = scale * image + offset`` on each axis, in pixels.

    Coordinates are those of edges: an image of width w reaches from 0 to w, and the centre of its first pixel is 0.5.

    Attributes:
        size: of the image.
        input_size: of the network's input.
        scale: of y and x; negative where the image is turned.
        offset: of y and x.
    """

    size: Size
    input_size: Size
    scale: tuple[float, float] = (1.0, 1.0)
    offset: tuple[float, float] = (0.0, 0.0)

    def boxes_in_input(self, boxes: np.ndarray) -> np.ndarray:
        """Boxes of the image in the input's coordinates; see ``boxes_in_image``."""
        scale, offset = self._per_corner
        return _ordered(np.asarray(boxes, np.float64) * scale + offset)

    def boxes_in_image(self, boxes: np.ndarray) -> np.ndarray:
        """Boxes of the input in the image's coordinates.

        Args:
            boxes: of shape (boxes, 4): left, top, right, bottom.

        Returns:
            float64 of the same shape; not clipped to the image.
        """
        scale, offset = self._per_corner
        return _ordered((np.asarray(boxes, np.float64) - offset) / scale)

    def edges_of_pixels(self, boxes: np.ndarray) -> np.ndarray:
        """Boxes of the input that end with the image's last pixel in them, with its far edge as their end.

        Args:
            boxes: of shape (boxes, 4): left, top, right, bottom.
        """
        height, width = map(abs, self.scale)
        edges: np.ndarray = np.asarray(boxes, np.float64) + np.array([0.0, 0.0, width, height])
        return edges

    def map_in_image(self, values: np.ndarray, unseen: int) -> np.ndarray:
        """A map over the input as a map over the image: for each pixel's centre, the value at its place.

        Args:
            values: of shape (rows, columns), which cover the input evenly.
            unseen: the value of pixels that are not in the input.
        """
        rows, row_seen = self._places(0, values.shape[0])
        columns, column_seen = self._places(1, values.shape[1])
        picked = values[np.ix_(rows, columns)]
        return np.where(row_seen[:, None] & column_seen[None, :], picked, np.asarray(unseen, values.dtype))

    @property
    def _per_corner(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.scale[::-1] * 2), np.array(self.offset[::-1] * 2)

    def _places(self, axis: int, cells: int) -> tuple[np.ndarray, np.ndarray]:
        """For each pixel of the image along an axis: which of ``cells`` it falls into, and whether into any."""
        inside = (np.arange(self.size[axis]) + 0.5) * self.scale[axis] + self.offset[axis]
        places = np.floor(inside * cells / self.input_size[axis]).astype(np.int64)
        return np.clip(places, 0, cells - 1), (places >= 0) & (places < cells)


def placement(preprocess: Optional[Preprocess], size: Size, input_size: Size) -> Placement:
    """Where ``preprocess`` puts an image of a size in an input of a size; without one, at the same place."""
    if preprocess is None:
        return Placement(size, input_size)
    scaled, offset = size, (0, 0)
    if preprocess.resize is not None:
        scaled = short_side_size(size, preprocess.resize)
    if preprocess.crop is not None:
        top, left = centre_offset((preprocess.crop, preprocess.crop), scaled)
        offset = (-top, -left)
    if preprocess.fit == "stretch":
        scaled = input_size
    elif preprocess.fit == "letterbox":
        scaled = letterbox_size(size, input_size)
        offset = centre_offset(scaled, input_size)
    upright = Placement(
        size, input_size, (scaled[0] / size[0], scaled[1] / size[1]), (float(offset[0]), float(offset[1]))
    )
    return _turned(upright) if preprocess.rotate180 else upright


def _turned(placed: Placement) -> Placement:
    """The placement in the input after a turn by 180 degrees."""
    height, width = placed.input_size
    (y, x), (top, left) = placed.scale, placed.offset
    return Placement(placed.size, placed.input_size, (-y, -x), (height - top, width - left))


def _ordered(boxes: np.ndarray) -> np.ndarray:
    """Boxes whose corners a turn may have exchanged, with the smaller coordinates first."""
    first, second = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=-1)
