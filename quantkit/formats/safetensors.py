"""Reading safetensors files with the format's own library, which checks every offset before it returns a tensor."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np

from quantkit.errors import ModelError
from quantkit.files.text import open_ordinary, parse_json

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1"}
# The library allows 100 MB, which take thirty times that in memory; a thousand layers need a tenth of a megabyte.
_LONGEST_HEADER = 1 << 20


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Every tensor of a file by name; bfloat16 as float32.

    Raises:
        ModelError: the file cannot be read, its header contradicts itself or the file's size, or a tensor has a type
            that NumPy lacks.
    """
    from safetensors import SafetensorError, deserialize

    try:
        # Not mapped into memory: a file that another process cuts short would end this one.
        with open_ordinary(path) as file:
            content = _checked(file, path)
    except OSError as error:
        raise ModelError(
            f"cannot read {path}: {error.strerror or error}; check the path and its permissions"
        ) from error
    try:
        return {
            name: _array(path, name, entry["dtype"], entry["shape"], entry["data"])
            for name, entry in deserialize(content)  # type: ignore[no-untyped-call]
        }
    except (SafetensorError, ValueError) as error:
        raise _damaged(path, str(error)) from error


def _checked(file: io.BufferedReader, path: Path) -> bytes:
    """The bytes of a file, which must be as long as its header says: a sparse file can have any length."""
    length = int.from_bytes(file.read(8), "little")
    if length > _LONGEST_HEADER:
        raise _damaged(path, f"a header of {length} bytes, where {_LONGEST_HEADER} are allowed")
    header = file.read(length)
    try:
        tensors = [entry for name, entry in parse_json(header).items() if name != "__metadata__"]
        needed = 8 + length + max((entry["data_offsets"][1] for entry in tensors), default=0)
        there = os.fstat(file.fileno()).st_size
        if needed != there:
            raise _damaged(path, f"its header describes {needed} bytes, and there are {there}")
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise _damaged(path, f"its header is invalid ({type(error).__name__}: {str(error)[:100]})") from error
    file.seek(0)
    return file.read()


def _array(path: Path, name: str, kind: str, shape: list[int], data: bytes) -> np.ndarray:
    if kind not in _DTYPES and kind != "BF16":
        raise ModelError(f"{path}: tensor {name!r} has type {kind!r}; convert it to F32")
    array = np.frombuffer(data, "<u2" if kind == "BF16" else _DTYPES[kind]).reshape(shape)
    # bfloat16 is the upper half of float32.
    return (array.astype(np.uint32) << 16).view(np.float32) if kind == "BF16" else array


def _damaged(path: Path, problem: str) -> ModelError:
    return ModelError(f"{path} is not a complete safetensors file: {problem}; fetch it again")
