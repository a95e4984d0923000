"""Tensors of the Open Inference Protocol: from bytes and lists, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from math import prod
from typing import Any, Union

import numpy as np

from quantkit.errors import DataError

BYTES = "BYTES"
"""The type of elements of any length."""

_TYPES = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "i1", "INT16": "<i2",
    "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip

# Each element of type BYTES begins with its length in so many bytes.
_LENGTH_BYTES = 4

# Each takes some time in which nothing else runs; they are image files.
_MOST_ELEMENTS = 1 << 16


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor: an array of ``shape``, or for ``BYTES`` its elements in order."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    values: Union[np.ndarray, tuple[bytes, ...]]

    def listed(self) -> list[Any]:
        """Its values in order, for JSON."""
        if isinstance(self.values, np.ndarray):
            values: list[Any] = self.values.ravel().tolist()
            return values
        return [element.decode() for element in self.values]


def tensor_of_list(name: str, datatype: str, shape: tuple[int, ...], elements: list[Any]) -> Tensor:
    """A tensor of numbers, flat or nested, or of bytes.

    Raises:
        DataError: they are not of this type, or not as many as the shape says.
    """
    if datatype == BYTES:
        return Tensor(name, datatype, shape, _counted(name, shape, tuple(elements)))
    dtype = _dtype(name, datatype)
    flat = _counted(name, shape, _flat(name, elements))
    try:
        values = np.array(flat, np.float64 if dtype.kind == "f" else None)
        narrowed = values.astype(dtype)
    except OverflowError:
        narrowed = None
    # Integers beyond 64 bits are objects for NumPy, and an empty list is of floating point.
    if narrowed is None or (dtype.kind in "biu" and (values.dtype.kind == "O" or not np.array_equal(narrowed, values))):
        raise DataError(f"the data of input {name!r} are not all numbers of type {datatype}")
    return _shaped(name, datatype, shape, narrowed)


def tensor_of_bytes(name: str, datatype: str, shape: tuple[int, ...], content: bytes | memoryview) -> Tensor:
    """A tensor of little-endian numbers in row-major order, or of elements that follow their lengths.

    Raises:
        DataError: the bytes are not as many as the shape says, or are no elements.
    """
    if datatype == BYTES:
        count = prod(shape)
        if _LENGTH_BYTES * count > len(content):
            raise DataError(
                f"input {name!r} has shape {list(shape)} and {len(content) // _LENGTH_BYTES} values at most"
            )
        if count > _MOST_ELEMENTS:
            raise DataError(f"input {name!r} has {count} elements; give at most {_MOST_ELEMENTS} in a request")
        # One more shows that there are too many.
        elements = tuple(islice(_elements(name, content), count + 1))
        return Tensor(name, datatype, shape, _counted(name, shape, elements))
    dtype = _dtype(name, datatype)
    if len(content) % dtype.itemsize:
        raise DataError(f"the {len(content)} bytes of input {name!r} are no whole number of {datatype}")
    return _shaped(name, datatype, shape, _counted(name, shape, np.frombuffer(content, dtype)))


def tensor_bytes(tensor: Tensor) -> bytes:
    """The bytes of a tensor; see ``tensor_of_bytes``."""
    if isinstance(tensor.values, np.ndarray):
        return np.ascontiguousarray(tensor.values, _TYPES[tensor.datatype]).tobytes()
    return b"".join(len(element).to_bytes(_LENGTH_BYTES, "little") + element for element in tensor.values)


def _flat(name: str, elements: list[Any]) -> list[Any]:
    """The numbers of lists in lists, in order; checked before NumPy sees them, which makes long texts of short ones."""
    while any(type(each) is list for each in elements):
        if not all(type(each) is list for each in elements):
            raise DataError(f"the data of input {name!r} are lists of several depths")
        elements = list(chain.from_iterable(elements))
    if not all(type(each) in (int, float, bool) for each in elements):
        raise DataError(f"the data of input {name!r} are not all numbers")
    return elements


def _shaped(name: str, datatype: str, shape: tuple[int, ...], values: np.ndarray) -> Tensor:
    try:
        return Tensor(name, datatype, shape, values.reshape(shape))
    except ValueError as error:  # empty, but larger than any memory along the other axes
        raise DataError(f"input {name!r} has shape {list(shape)}, which is too large") from error


def _elements(name: str, content: bytes | memoryview) -> Iterator[bytes]:
    place = 0
    while place < len(content):
        size = int.from_bytes(content[place : place + _LENGTH_BYTES], "little")
        place += _LENGTH_BYTES
        if place + size > len(content):
            raise DataError(f"an element of input {name!r} ends beyond its bytes")
        yield bytes(content[place : place + size])
        place += size


def _dtype(name: str, datatype: str) -> np.dtype[Any]:
    if datatype not in _TYPES:
        raise DataError(f"input {name!r} has datatype {datatype!r}; there are {', '.join(_TYPES)} and {BYTES}")
    return np.dtype(_TYPES[datatype])


def _counted(name: str, shape: tuple[int, ...], values: Any) -> Any:
    if prod(shape) != len(values):
        raise DataError(f"input {name!r} has shape {list(shape)} and {len(values)} values")
    return values
