"""Constant folding with NumPy, above all of the shapes that exporters compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from quantkit.formats.onnx.reading.constant_inputs import Arrays, array_at, integers_at, number_at
from quantkit.formats.onnx.reading.folds import ARITHMETIC, FOLDS, expanded
from quantkit.formats.onnx.reading.values import (
    MOST_ELEMENTS,
    ONLY_IMAGES,
    OUT_OF_PROPORTION,
    Budget,
    OnnxNode,
    Refused,
    Shape,
    axis_of,
    broadcast,
    elements,
    in_batch,
    shown,
)


def _together(node: OnnxNode, arrays: Arrays) -> Shape:
    if "axis" in node.attributes:
        raise Refused("it broadcasts constants as opset 6 does, by an attribute; export the network with a newer one")
    return broadcast(*(array_at(arrays, position).shape for position in range(len(arrays))))


def _asked(node: OnnxNode, arrays: Arrays) -> Shape:
    return tuple(integers_at(arrays, 0))


def _tiled(node: OnnxNode, arrays: Arrays) -> Shape:
    shape, repeats = array_at(arrays, 0).shape, integers_at(arrays, 1)
    if len(repeats) != len(shape):
        raise Refused(f"it has {len(repeats)} repeats for {len(shape)} axes")
    return tuple(extent * times for extent, times in zip(shape, repeats))


def _ranged(node: OnnxNode, arrays: Arrays) -> Shape:
    start, stop, step = (number_at(arrays, position) for position in range(3))
    if step == 0:
        raise Refused("its step is 0")
    count = (stop - start) / step
    if not np.isfinite(count):
        raise Refused("its limits are not finite")
    return (max(0, int(np.ceil(count))),)


def _gathered(node: OnnxNode, arrays: Arrays) -> Shape:
    data, indices = array_at(arrays, 0), array_at(arrays, 1)
    axis = axis_of(node.integer("axis", 0), data.ndim)
    return (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])


# Their results are views of their input and take no memory. States of recurrent layers, zeros for an open batch, are
# made of these.
_VIEWS = frozenset({"ConstantOfShape", "Expand", "Identity", "Slice", "Squeeze", "Transpose", "Unsqueeze"})

# The shapes of results that can be larger than all inputs together.
_SHAPES: Mapping[str, Callable[[OnnxNode, Arrays], Shape]] = {
    **dict.fromkeys((*ARITHMETIC, "Mod", "Max", "Min", "Sum"), _together),
    "Constant": lambda node, arrays: (),
    "ConstantOfShape": _asked,
    "Expand": expanded,
    "Tile": _tiled,
    "Range": _ranged,
    "Gather": _gathered,
}


@dataclass
class Folding:
    """Folds constants while the budget lasts."""

    budget: Budget

    def __call__(self, node: OnnxNode, arrays: Arrays) -> np.ndarray:
        """The result of an operator on constants.

        Raises:
            Refused: the operator is unknown, its inputs do not fit it, the result would be too large, or it would have
                the batch as an axis without being one value or part repeated.
        """
        shape = _SHAPES[node.op](node, arrays) if node.op in _SHAPES else ()
        repeated = next(
            (array.shape for array in arrays if array is not None and any(map(in_batch, array.shape))), shape
        )
        if node.op in _VIEWS:
            self._admit_view(repeated)
            return np.asarray(FOLDS[node.op](node, arrays))
        # The results of all other operators are no larger than their inputs together.
        self.budget.take(8 * max(prod(shape), sum(array.size for array in arrays if array is not None)))
        if any(map(in_batch, (*shape, *repeated))):
            raise Refused(f"it makes a constant of shape {shown(shape or repeated)}; {ONLY_IMAGES}")
        with np.errstate(all="ignore"):
            return np.asarray(FOLDS[node.op](node, arrays))

    def _admit_view(self, shape: Shape) -> None:
        """What is repeated takes no memory until a layer reads it; over the batch it is as large as what reads it."""
        if any(map(in_batch, shape)):
            self.budget.take(8 * elements(shape))
        elif prod(shape) > MOST_ELEMENTS:
            raise Refused(OUT_OF_PROPORTION)
