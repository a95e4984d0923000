"""MXNet's ``.params`` files, read and written in plain NumPy.

MXNet itself trusts every length in such a file, so a damaged file can end the process. Here every header is
checked against the size of the file before anything is allocated.

The layout, little-endian (MXNet's ``NDArray::Save`` and ``NDArray::Load``): the list's magic number (u64),
a reserved u64, the number of arrays (u64), the arrays, the number of names (u64), and the names, each a
u64 length and that many bytes. An array is its version's magic number (u32; files before MXNet 0.11 have the
number of axes instead), from V2 on the storage type (i32), the shape (i32 number of axes, then i64 each;
u32 in files before 0.11), the device (two i32), the type flag (i32) and the values.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from quantkit.errors import ModelError
from quantkit.files.text import open_ordinary
from quantkit.formats.repeated import in_memory

# Trained weights and statistics stay far below; a flipped exponent bit often exceeds it.
_LARGEST_PLAUSIBLE = 1e15
_LISTED = 3

_LIST_MAGIC = 0x112
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_DTYPES = {
    flag: np.dtype(name)
    for flag, name in enumerate(("<f4", "<f8", "<f2", "|u1", "<i4", "|i1", "<i8", "|b1", "<i2", "<u2", "<u4", "<u8"))
}
_FLAGS = {dtype: flag for flag, dtype in _DTYPES.items()}
_NEWEST_FLAG_OF_ALL_RELEASES = 6
_SPARSE = {1: "row_sparse", 2: "csr"}
_MOST_AXES = 32
_LONGEST_NAME = 4096
# Each takes some hundred bytes in addition to its values.
_MOST_ARRAYS = 1 << 17
_CPU = (1, 0)


def read_params(path: Path) -> dict[str, np.ndarray]:
    """Read every array of a ``.params`` file, by its name in the file.

    Checkpoints name their arrays ``arg:x`` and ``aux:x``; gluon's ``save_parameters`` names them by their place in
    the block (``features.0.weight``). The arrays are read-only.

    Raises:
        ModelError: the file cannot be read or is not a complete ``.params`` file of named dense arrays.
    """
    try:
        with open_ordinary(path) as file:
            return _list(_Reader(file, path, os.fstat(file.fileno()).st_size))
    except OSError as error:
        raise ModelError(
            f"cannot read {path}: {error.strerror or error}; check the path and its permissions"
        ) from error


def write_params(file: IO[bytes], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays in the order given, as MXNet 1.5 and newer read them; equal arrays give equal bytes.

    Raises:
        ModelError: the format cannot hold an array's type or shape.
    """
    file.write(struct.pack("<QQQ", _LIST_MAGIC, 0, len(arrays)))
    for name, array in arrays.items():
        flag = _FLAGS.get(array.dtype)
        if flag is None or flag > _NEWEST_FLAG_OF_ALL_RELEASES:
            raise ModelError(f"array {name!r} is {array.dtype}, which .params files cannot hold; convert it to float32")
        if array.size == 0 or array.ndim == 0:
            raise ModelError(
                f"array {name!r} has shape {array.shape}; .params files hold neither scalars nor empty arrays"
            )
        file.write(struct.pack("<IiI", _V2, 0, array.ndim))
        file.write(struct.pack(f"<{array.ndim}q", *array.shape))
        file.write(struct.pack("<iii", *_CPU, flag))
        file.write(np.ascontiguousarray(array).data)
    file.write(struct.pack("<Q", len(arrays)))
    for name in arrays:
        encoded = name.encode()
        file.write(struct.pack("<Q", len(encoded)) + encoded)


def plain_names(params: Mapping[str, np.ndarray], where: str) -> dict[str, np.ndarray]:
    """The arrays by name, without the ``arg:`` and ``aux:`` of checkpoint files.

    Raises:
        ModelError: two arrays then have the same name.
    """
    plain: dict[str, np.ndarray] = {}
    for name, value in params.items():
        short = name[4:] if name.startswith(("arg:", "aux:")) else name
        if short in plain:
            raise ModelError(f"{where}: {short!r} occurs twice, as arg: and as aux:; save the checkpoint again")
        plain[short] = value
    return plain


def check_finite(params: Mapping[str, np.ndarray], where: str) -> None:
    """Reject parameters that hold NaN, infinity or values that no training produces.

    They would spread through the network unnoticed. A ``.params`` file has no checksum; many damaged
    bytes show up as such values, though not all.

    Raises:
        ModelError: some values are impossible; the message names the arrays and counts the values.
    """
    bad = {}
    for name, value in params.items():
        if value.dtype.kind == "f":
            count = _impossible(value)
            if count:
                bad[name] = f"{name!r} ({count} of {value.size} values)"
    if bad:
        raise ModelError(
            f"{where} holds NaN, infinity or values beyond {_LARGEST_PLAUSIBLE:g} in {shortlist(bad.values())}; "
            "the training diverged or the file is damaged: use another checkpoint"
        )


def _impossible(value: np.ndarray) -> int:
    """How many values no training produces; what is repeated without memory is looked at once."""
    distinct = in_memory(value)
    return np.count_nonzero(~(np.abs(distinct) < _LARGEST_PLAUSIBLE)) * (value.size // max(1, distinct.size))


def shortlist(items: Iterable[str], others: str = "more") -> str:
    """The first three, and how many ``others`` there are, for messages."""
    listed = list(items)
    rest = len(listed) - _LISTED
    return ", ".join(listed[:_LISTED]) + (f" and {rest} {others}" if rest > 0 else "")


@dataclass
class _Reader:
    """A cursor over an open file that never reads past the end, nor trusts a length before checking it."""

    file: IO[bytes]
    path: Path
    size: int
    offset: int = 0
    position: str = "the file's header"

    def fail(
        self, problem: str, at: int, remedy: str = "the file is damaged or incomplete: fetch or export it again"
    ) -> ModelError:
        return ModelError(f"{self.path}: {self.position}: {problem} at byte {at}; {remedy}")

    def take(self, count: int, what: str) -> bytes:
        left = self.size - self.offset
        if count > left:
            raise self.fail(f"{what} needs {count} bytes and {left} are left", self.offset)
        content = self.file.read(count)
        if len(content) != count:
            raise self.fail(f"{what} ends early", self.offset)
        self.offset += count
        return content

    def integers(self, layout: str, what: str) -> tuple[int, ...]:
        return struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout), what))

    def integer(self, layout: str, what: str) -> int:
        return self.integers(layout, what)[0]


def _list(reader: _Reader) -> dict[str, np.ndarray]:
    if reader.integer("Q", "the magic number") != _LIST_MAGIC:
        raise reader.fail("this is not an MXNet .params file: wrong magic number", 0, "give a file that MXNet saved")
    reader.integer("Q", "a reserved field")
    count = reader.integer("Q", "the number of arrays")
    # The smallest array is its magic number and an empty shape.
    if count > (reader.size - reader.offset) // 8:
        raise reader.fail(f"{count} arrays do not fit into {reader.size} bytes", reader.offset - 8)
    if count > _MOST_ARRAYS:
        raise reader.fail(f"{count} arrays", reader.offset - 8, f"quantkit reads up to {_MOST_ARRAYS}")
    arrays = []
    for index in range(count):
        reader.position = f"array {index + 1} of {count}"
        arrays.append(_array(reader))
    reader.position = "the list of names"
    start = reader.offset
    named = reader.integer("Q", "the number of names")
    if named != count:
        remedy = "save a dict of arrays, not a list" if named == 0 else "the file is damaged: fetch or export it again"
        raise reader.fail(f"{count} arrays but {named} names", start, remedy)
    result: dict[str, np.ndarray] = {}
    for array in arrays:
        start = reader.offset
        name = _name(reader)
        if name in result:
            raise reader.fail(f"the name {name!r} occurs twice", start)
        result[name] = array
    if reader.offset != reader.size:
        raise reader.fail(f"{reader.size - reader.offset} bytes follow the end", reader.offset)
    return result


def _name(reader: _Reader) -> str:
    start = reader.offset
    length = reader.integer("Q", "the length of a name")
    if not 0 < length <= _LONGEST_NAME:
        raise reader.fail(f"a name of {length} bytes", start)
    try:
        name = reader.take(length, "a name").decode()
    except UnicodeDecodeError as error:
        raise reader.fail("a name is not UTF-8", start) from error
    if min(name) < " ":
        raise reader.fail("a name holds control characters", start)
    return name


def _array(reader: _Reader) -> np.ndarray:
    start = reader.offset
    magic = reader.integer("I", "the magic number")
    if magic in (_V2, _V3):
        storage = reader.integer("i", "the storage type")
        if storage in _SPARSE:
            raise reader.fail(f"the array is {_SPARSE[storage]}", start, "save it dense, with tostype('default')")
        if storage != 0:
            raise reader.fail(f"unknown storage type {storage}", start)
    shape = _shape(reader, magic)
    start = reader.offset
    device, _ = reader.integers("ii", "the device")
    if not 0 < device < 16:
        raise reader.fail(f"unknown device type {device}", start)
    start = reader.offset
    flag = reader.integer("i", "the type flag")
    if flag not in _DTYPES:
        raise reader.fail(f"unknown type flag {flag}", start)
    size = math.prod(shape) * _DTYPES[flag].itemsize
    values = reader.take(size, f"the values of shape {shape}, {_DTYPES[flag]},")
    # Any other byte would be an invalid bool to NumPy, and undefined behaviour to its C code.
    if _DTYPES[flag].kind == "b" and set(values) - {0, 1}:
        raise reader.fail("a bool is neither 0 nor 1", reader.offset - size)
    return np.frombuffer(values, _DTYPES[flag]).reshape(shape)


def _shape(reader: _Reader, magic: int) -> tuple[int, ...]:
    start = reader.offset
    if magic in (_V1, _V2, _V3):
        axes, width = reader.integer("I", "the number of axes"), "q"
    else:
        axes, width, start = magic, "I", reader.offset - 4
    scalar = axes == 0 and magic == _V3
    if axes == 0 and not scalar:
        raise reader.fail("the array was never given values", start, "initialise all parameters before saving")
    if axes > _MOST_AXES:
        raise reader.fail(f"{axes:#x} axes", start)
    shape = reader.integers(f"{axes}{width}", "the shape") if axes else ()
    if any(extent <= 0 for extent in shape):
        raise reader.fail(f"shape {shape}", start)
    return shape
