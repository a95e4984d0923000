"""The values that converters work with: operators of an ONNX file, and what its tensors have become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Optional, Union

import numpy as np

from quantkit.errors import ModelError
from quantkit.ir.graph import Tensor

Shape = tuple[int, ...]
Attribute = Union[int, float, str, tuple[int, ...], tuple[float, ...], tuple[str, ...], np.ndarray]

# The batch size in every shape: a prime that no other extent is a multiple of. A network's arithmetic with shapes
# (Shape, Gather, Mul, Concat before a Reshape) is done in integers, and the result still shows the batch.
BATCH = 1_000_003

# Values of the largest tensor for one image; far beyond any network, and within the engine's indices.
MOST_ELEMENTS = 2**29

ONLY_IMAGES = "only images may have the batch as an axis"
OUT_OF_PROPORTION = "what it computes takes memory out of proportion to the size of the file"

_NO_ATTRIBUTE = "it has no attribute {!r}, which ONNX requires"


class Refused(ModelError):
    """An operator cannot be imported. The message is the reason alone; the caller adds the operator."""


@dataclass
class Budget:
    """The bytes that constants and parameters computed from a file may still take."""

    left: int

    def take(self, count: int) -> None:
        """Use up ``count`` bytes.

        Raises:
            Refused: fewer are left.
        """
        self.left -= count
        if self.left < 0:
            raise Refused(OUT_OF_PROPORTION)


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor that is the same for every image."""

    name: str
    array: np.ndarray = field(repr=False)

    @property
    def shape(self) -> Shape:
        return self.array.shape

    @property
    def scalar(self) -> Optional[float]:
        """Its only value; None if it has several."""
        return float(self.array.reshape(-1)[0]) if self.array.size == 1 else None


@dataclass(frozen=True)
class Computed:
    """A tensor that depends on the input. ``shape`` has BATCH for the batch size; ``integral``: integers in ONNX."""

    tensor: Tensor
    shape: Shape
    integral: bool = False


Value = Union[Constant, Computed]


@dataclass(frozen=True, eq=False)
class OnnxNode:
    """One operator of an ONNX file. ``name`` is unique; ``inputs`` and ``outputs`` are names of tensors, or empty."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    domain: str = ""

    def integer(self, name: str, default: Optional[int] = None) -> int:
        """An attribute that is one integer."""
        return int(self._attribute(name, int, default))

    def number(self, name: str, default: float) -> float:
        """An attribute that is one number."""
        return float(self._attribute(name, (int, float), default))

    def text(self, name: str, default: str) -> str:
        """An attribute that is text."""
        return str(self._attribute(name, str, default))

    def integers(self, name: str) -> Optional[tuple[int, ...]]:
        """An attribute that is a list of integers; None if it is missing."""
        if name not in self.attributes:
            return None
        value = self.attributes[name]
        if not isinstance(value, tuple) or not all(isinstance(each, int) for each in value):
            raise Refused(f"its attribute {name!r} is not a list of integers")
        return tuple(int(each) for each in value)

    def numbers(self, name: str) -> Optional[tuple[float, ...]]:
        """An attribute that is a list of numbers; None if it is missing."""
        if name not in self.attributes:
            return None
        value = self.attributes[name]
        if not isinstance(value, tuple) or not all(isinstance(each, (int, float)) for each in value):
            raise Refused(f"its attribute {name!r} is not a list of numbers")
        return tuple(float(each) for each in value)

    def _attribute(self, name: str, kind: Any, default: Any) -> Any:
        value = self.attributes.get(name, default)
        if value is None:
            raise Refused(_NO_ATTRIBUTE.format(name))
        if not isinstance(value, kind):
            raise Refused(f"its attribute {name!r} has another type than ONNX specifies")
        return value


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front.

    Raises:
        Refused: the tensor has no such axis.
    """
    if not -rank <= axis < rank:
        raise Refused(f"it names axis {axis} of a tensor with {rank} axes")
    return axis % rank


def axes_of(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front, each once."""
    positive = tuple(axis_of(int(axis), rank) for axis in axes)
    if len(set(positive)) != len(positive):
        raise Refused(f"it names an axis twice in {tuple(axes)}")
    return positive


def broadcast(*shapes: Shape) -> Shape:
    """The common shape of several tensors, by the broadcasting rules of NumPy and ONNX.

    Raises:
        Refused: there is none.
    """
    rank = max(map(len, shapes))
    result = []
    for extents in zip(*((1,) * (rank - len(shape)) + tuple(shape) for shape in shapes)):
        others = {extent for extent in extents if extent != 1}
        if len(others) > 1:
            raise Refused(f"the shapes {' and '.join(map(shown, shapes))} cannot be broadcast together")
        result.append(others.pop() if others else 1)
    return tuple(result)


def in_batch(extent: int) -> bool:
    """Whether an extent, or a computed integer, depends on the batch size."""
    return extent != 0 and extent % BATCH == 0


def shown(shape: Sequence[int]) -> str:
    """A shape for messages, with N for the batch."""
    return "(" + ", ".join(_extent(extent) for extent in shape) + ")"


def _extent(extent: int) -> str:
    if not in_batch(extent):
        return str(extent)
    return "N" if extent == BATCH else f"{extent // BATCH}N"


def elements(shape: Sequence[int]) -> int:
    """The number of values of a tensor, for one image."""
    return prod(extent // BATCH if in_batch(extent) else extent for extent in shape)
