"""The memory of an array that the engine reads its input from."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from quantkit.backends.mxnet.compat import load_mxnet


class InputMemory:
    """An array of MXNet's; it may be written while no run is under way.

    For MXNet's own copy another thread confirms that nothing reads the array, which takes as long as some layers of a
    small network. Nothing does, once a run has put out everything.
    """

    def __init__(self, array: Any) -> None:
        """Take over the array, whose batch is its first axis, if it has one."""
        array.wait_to_read()
        self._array, self._base = array, load_mxnet().base
        self._place, self._values = 0, np.empty(0)

    def write(self, batch: np.ndarray) -> None:
        """Write a batch, and copies of its last sample up to the length of the array.

        Raises:
            mxnet.base.MXNetError: the engine does not tell where the array is.
        """
        if not self._array.size:
            return
        place = ctypes.c_void_p()
        # An array in a layout of oneDNN's is brought back by this, maybe elsewhere.
        self._base.check_call(self._base._LIB.MXNDArrayGetData(self._array.handle, ctypes.byref(place)))
        if place.value != self._place:
            self._place, self._values = place.value or 0, self._at(place.value or 0)
        if self._values.shape == batch.shape:
            np.copyto(self._values, batch)
        else:
            self._values[: len(batch)] = batch
            self._values[len(batch) :] = batch[-1]

    def _at(self, place: int) -> np.ndarray:
        shape, dtype = self._array.shape, np.dtype(self._array.dtype)
        content = (ctypes.c_char * (self._array.size * dtype.itemsize)).from_address(place)
        return np.frombuffer(content, dtype).reshape(shape)
