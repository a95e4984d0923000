"""Memory that a process shares with an instance, in which batches and their outputs lie."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from math import prod

import numpy as np

Shape = tuple[int, ...]

SLOTS = 2
"""A batch is computed in one while the next one is put into the other."""

# Arrays begin at cache lines.
_ALIGNED = 64


class Slots:
    """Room for ``SLOTS`` batches; it has no name, and ends with the last process that has it open."""

    def __init__(self, descriptor: int, batch: int, input_shape: Shape, output_shapes: Sequence[Shape]) -> None:
        """Map the memory of a descriptor, which stays open.

        Args:
            descriptor: of ``make_memory``, here or inherited.
            batch: the most samples of a batch.
            input_shape: of a sample.
            output_shapes: of each output of a sample.
        """
        shapes = [(batch, *shape) for shape in (input_shape, *output_shapes)]
        arrays = []
        memory = mmap.mmap(descriptor, size_of(batch, input_shape, output_shapes))
        place = 0
        for _ in range(SLOTS):
            for shape in shapes:
                arrays.append(np.frombuffer(memory, np.float32, prod(shape), place).reshape(shape))
                place += _bytes(shape)
        width = len(shapes)
        self._inputs = arrays[::width]
        self.outputs = [arrays[slot * width + 1 : (slot + 1) * width] for slot in range(SLOTS)]

    def inputs_of(self, dtype: str) -> list[np.ndarray]:
        """The room for the samples of each slot, of a type that takes no more of it than float32."""
        return [room.reshape(-1).view(dtype)[: room.size].reshape(room.shape) for room in self._inputs]


def make_memory(batch: int, input_shape: Shape, output_shapes: Sequence[Shape]) -> int:
    """The descriptor of new memory for ``Slots``; pages that are never written to take no room."""
    descriptor = os.memfd_create("quantkit", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, size_of(batch, input_shape, output_shapes))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def size_of(batch: int, input_shape: Shape, output_shapes: Sequence[Shape]) -> int:
    """The size in bytes of memory for ``Slots``."""
    return SLOTS * sum(_bytes((batch, *shape)) for shape in (input_shape, *output_shapes))


def _bytes(shape: Shape) -> int:
    return -(-prod(shape) * np.dtype(np.float32).itemsize // _ALIGNED) * _ALIGNED
