"""The inputs of operators on constants, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np

from quantkit.formats.onnx.reading.values import OnnxNode, Refused

Arrays = Sequence[Optional[np.ndarray]]
"""The inputs of an operator; None for those that it leaves out."""

# Entries of shapes, axes and limits: as many as a NumPy array has axes.
_MOST_INTEGERS = 32


def array_at(arrays: Arrays, position: int) -> np.ndarray:
    """An input that must be there.

    Raises:
        Refused: it is missing.
    """
    array = arrays[position] if position < len(arrays) else None
    if array is None:
        raise Refused(f"its input {position} is missing")
    return array


def number_at(arrays: Arrays, position: int) -> float:
    """An input that is one number.

    Raises:
        Refused: it is missing, or has several.
    """
    array = array_at(arrays, position)
    if array.size != 1:
        raise Refused(f"its input {position} has {array.size} values where one is expected")
    value: float = array.reshape(-1)[0].item()
    return value


def integers_at(arrays: Arrays, position: int) -> list[int]:
    """An input that is a short list of integers.

    Raises:
        Refused: it is missing, or another.
    """
    array = array_at(arrays, position)
    if array.dtype.kind not in "iub" or array.size > _MOST_INTEGERS:
        raise Refused(f"its input {position} is not a list of integers")
    return [int(value) for value in array.reshape(-1)]


def axes_at(node: OnnxNode, arrays: Arrays) -> Optional[list[int]]:
    """The axes, from an attribute or, in newer opsets, an input; None if the operator names none."""
    if len(arrays) > 1 and arrays[1] is not None:
        return integers_at(arrays, 1)
    listed = node.integers("axes")
    return None if listed is None else list(listed)
