"""The shapes of a network's inputs as the user gives them: of one, or of several by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional, Union

import numpy as np

from quantkit.backends.mxnet.gluon import INPUT
from quantkit.errors import ModelError
from quantkit.models.layout import checked_layout, is_time_major

Shape = tuple[int, ...]

GivenShapes = Union[Sequence[int], Mapping[str, Sequence[int]], None]

Shapes = Union[Shape, Mapping[str, Shape], None]


def checked_shapes(given: GivenShapes) -> Shapes:
    """Shapes that a user gave, without the batch.

    Raises:
        ModelError: they are none.
    """
    if given is None:
        return None
    if not isinstance(given, Mapping):
        return _checked_shape(given)
    if not given or not all(isinstance(name, str) for name in given):
        raise ModelError(f"input shapes {given!r} are not by the inputs' names, such as {{'left': (3, 32, 32)}}")
    return {name: _checked_shape(shape) for name, shape in given.items()}


def _checked_shape(shape: Sequence[int]) -> Shape:
    extents = tuple(shape) if isinstance(shape, (Sequence, np.ndarray)) and not isinstance(shape, str) else ()
    whole = all(isinstance(each, (int, np.integer)) and not isinstance(each, bool) for each in extents)
    if not 1 <= len(extents) <= 4 or not whole or not all(0 < each < 1 << 31 for each in extents):
        raise ModelError(
            f"input shape {shape!r} is not that of one input: whole numbers above zero, without the batch, such as "
            "(3, 224, 224) for images of channels, height, width, (1000,) for vectors, or (35, 200) for sequences of "
            "steps and features"
        )
    return tuple(int(each) for each in extents)


def with_batch(shape: Union[Shape, Mapping[str, Shape]], layout: Optional[str]) -> dict[str, Shape]:
    """The shapes of a block's inputs for a batch of one, by their names."""
    shapes = shape if isinstance(shape, Mapping) else {INPUT: shape}
    if len(shapes) == 1:
        checked_layout(layout, *shapes.values())
    at = 1 if len(shapes) == 1 and is_time_major(layout) else 0
    return {name: (*each[:at], 1, *each[at:]) for name, each in shapes.items()}
