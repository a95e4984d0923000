"""Tensors of ONNX files as arrays, wherever their values are; every length is checked before use.

After the ONNX specification: onnx.proto (TensorProto) and docs/ExternalData.md.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from math import prod
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np

from quantkit.errors import ModelError
from quantkit.files.text import open_ordinary

# By TensorProto.DataType: the type of the raw bytes, and the field that holds the values if there are no raw bytes.
_TYPES = {
    1: ("<f4", "float_data"),
    2: ("|u1", "int32_data"),
    3: ("|i1", "int32_data"),
    4: ("<u2", "int32_data"),
    5: ("<i2", "int32_data"),
    6: ("<i4", "int32_data"),
    7: ("<i8", "int64_data"),
    9: ("|b1", "int32_data"),
    10: ("<f2", "int32_data"),
    11: ("<f8", "double_data"),
    12: ("<u4", "uint64_data"),
    13: ("<u8", "uint64_data"),
    16: ("<u2", "int32_data"),
}
_BFLOAT16, _FLOAT16, _STRING = 16, 10, 8
_EXTERNAL = 1
# With 8 bytes each their size still fits in 63 bits, as NumPy requires.
_MOST_VALUES = 1 << 59
_MOST_AXES = 32


@dataclass
class Files:
    """The files of external tensors: only beside the network or below, and no byte is read for two tensors."""

    folder: Path
    # By device, inode, offset and length, since a file can have several names: the first name and the bytes.
    _read: dict[tuple[int, int, int, int], tuple[str, bytes]] = field(default_factory=dict)
    _left: dict[tuple[int, int], int] = field(default_factory=dict)
    _arrays: dict[tuple[int, int, int, int, int], np.ndarray] = field(default_factory=dict)

    def array(self, location: str, offset: int, count: int, kind: int, where: str) -> np.ndarray:
        """``count`` values of ONNX's data type ``kind`` from the file ``location``, starting at byte ``offset``.

        Tensors at the same place share their values.

        Raises:
            ModelError: the file is missing or elsewhere, or does not have these bytes.
        """
        dtype = np.dtype(_TYPES[kind][0])
        path = self._path(location, where)
        try:
            with open_ordinary(path) as file:
                key = self._take(file, path, location, offset, count * dtype.itemsize, where)
        except OSError as error:
            raise ModelError(f"{where} lies in {path}, which cannot be read: {error.strerror or error}") from error
        if (*key, kind) not in self._arrays:
            self._arrays[(*key, kind)] = _converted(np.frombuffer(self._read[key][1], dtype), kind)
        return self._arrays[(*key, kind)]

    def _take(
        self, file: IO[bytes], path: Path, location: str, offset: int, length: int, where: str
    ) -> tuple[int, int, int, int]:
        """Read ``length`` bytes from ``offset`` on unless already read; returns their key."""
        status = os.fstat(file.fileno())
        identity = status.st_dev, status.st_ino
        key = (*identity, offset, length)
        if key not in self._read:
            if offset < 0 or offset + length > status.st_size:
                raise ModelError(
                    f"{where}: its {length} bytes from byte {offset} on are not in {path}, which has {status.st_size}; "
                    "the two files do not belong together: export the network again"
                )
            left = self._left.setdefault(identity, status.st_size) - length
            if left < 0:
                raise ModelError(f"{where}: tensors overlap in {path}; export the network again")
            self._left[identity] = left
            file.seek(offset)
            self._read[key] = location, file.read(length)
        return key

    @property
    def size(self) -> int:
        """The number of bytes read."""
        return sum(len(content) for _, content in self._read.values())

    def digest(self, content: bytes) -> str:
        """The SHA-256 of a network: the file's bytes, then those read from other files, by name and place."""
        digest = hashlib.sha256(content)
        for *_, content in sorted((location, key[2:], content) for key, (location, content) in self._read.items()):
            digest.update(content)
        return digest.hexdigest()

    def _path(self, location: str, where: str) -> Path:
        pure = PurePosixPath(location)
        if not location or "\0" in location or "\\" in location or pure.is_absolute() or ".." in pure.parts:
            raise ModelError(
                f"{where} lies in {location!r}; only files in the network's own folder are read, by a relative name"
            )
        path = self.folder / location
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.folder)):
            raise ModelError(f"{where} lies in {path}, a link out of the network's folder; copy the file there")
        if not path.is_file():
            raise ModelError(f"{where} lies in {path}, which is missing; put it beside the network")
        return path


def array_of(tensor: Any, files: Files, where: str) -> np.ndarray:
    """The values of a ``TensorProto``; floating-point ones as float32, whatever their precision in the file.

    Raises:
        ModelError: the tensor contradicts itself, has a type that no network computes with, or lies outside
            the folder of the file.
    """
    shape = shape_of(tensor, where)
    if tensor.data_type not in _TYPES:
        kind = "text" if tensor.data_type == _STRING else f"of ONNX's data type {tensor.data_type}"
        raise ModelError(f"{where} is {kind}; only integers and floating-point numbers of 16 bits and more are read")
    dtype = np.dtype(_TYPES[tensor.data_type][0])
    count = prod(shape)
    if tensor.data_location == _EXTERNAL:
        return _external(tensor, count, dtype, files, where).reshape(shape)
    if tensor.HasField("raw_data"):
        values = np.frombuffer(_checked(tensor.raw_data, count, dtype, shape, where), dtype)
    else:
        values = _listed(tensor, dtype, count, shape, where)
    return _converted(values, tensor.data_type).reshape(shape)


def _converted(values: np.ndarray, kind: int) -> np.ndarray:
    """Values of ONNX's data type ``kind``, floating-point ones as float32."""
    if kind == _BFLOAT16:
        values = (values.astype("<u4") << 16).view("<f4")
    if values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            values = values.astype(np.float32, copy=False)
    return values


def shape_of(tensor: Any, where: str) -> tuple[int, ...]:
    """The shape that a tensor claims.

    Raises:
        ModelError: no tensor can have it.
    """
    shape = tuple(tensor.dims)
    # Extents of 0 do not make the others smaller for NumPy.
    if len(shape) > _MOST_AXES or min(shape, default=0) < 0 or prod(extent or 1 for extent in shape) > _MOST_VALUES:
        raise ModelError(f"{where} has the impossible shape {shape}; the file is damaged: export the network again")
    return shape


def _checked(raw: bytes, count: int, dtype: np.dtype, shape: tuple[int, ...], where: str) -> bytes:
    if len(raw) != count * dtype.itemsize:
        raise ModelError(
            f"{where} of shape {shape} needs {count * dtype.itemsize} bytes and has {len(raw)}; "
            "the file is damaged: export the network again"
        )
    # Any other byte would be an invalid bool to NumPy.
    if dtype.kind == "b" and set(raw) - {0, 1}:
        raise ModelError(f"{where} holds a bool that is neither 0 nor 1; the file is damaged: export the network again")
    return raw


def _listed(tensor: Any, dtype: np.dtype, count: int, shape: tuple[int, ...], where: str) -> np.ndarray:
    """Values from the field of their type, where 16-bit floating-point numbers stand as their bits."""
    values = getattr(tensor, _TYPES[tensor.data_type][1])
    if len(values) != count:
        raise ModelError(
            f"{where} of shape {shape} needs {count} values and has {len(values)}; "
            "the file is damaged: export the network again"
        )
    # Not by way of a list, which takes several times as much memory as the file.
    if tensor.data_type == _FLOAT16:
        return (np.fromiter(values, np.int64, count) & 0xFFFF).astype("<u2").view("<f2")
    wide = np.float64 if dtype.kind == "f" else np.uint64 if dtype.kind == "u" and dtype.itemsize > 2 else np.int64
    return np.fromiter(values, wide, count).astype(dtype, copy=False)


def _external(tensor: Any, count: int, dtype: np.dtype, files: Files, where: str) -> np.ndarray:
    length = count * dtype.itemsize
    entries = {entry.key: entry.value for entry in tensor.external_data}
    try:
        offset, claimed = int(entries.get("offset", 0)), int(entries.get("length", length))
    except ValueError as error:
        raise ModelError(f"{where}: {error}; the file is damaged: export the network again") from error
    if claimed != length:
        raise ModelError(
            f"{where} needs {length} bytes and names {claimed} in another file; "
            "the file is damaged: export the network again"
        )
    location = entries.get("location", "")
    if not isinstance(location, str):
        raise ModelError(f"{where} lies in {location!r}, which is not UTF-8; the file is damaged: export it again")
    return files.array(location, offset, count, tensor.data_type, where)
