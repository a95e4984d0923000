"""Arrays that repeat values without memory: a constant may be one number over a batch and more."""

from __future__ import annotations

import numpy as np


def in_memory(array: np.ndarray) -> np.ndarray:
    """The values that an array holds in memory: axes along which it repeats them have an extent of 1."""
    return array[tuple(slice(1) if stride == 0 else slice(None) for stride in array.strides)]


def repeats_one(array: np.ndarray) -> bool:
    """Whether an array holds one number in memory, however often it repeats it."""
    return array.size > 0 and in_memory(array).size == 1
