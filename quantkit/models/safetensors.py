"""Reading safetensors files: an 8-byte header length, a JSON header, and the values, little-endian."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from quantkit.errors import ModelError

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1"}
_LONGEST_HEADER = 100_000_000


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Every tensor of a file by name, read-only; bfloat16 as float32.

    Raises:
        ModelError: the file cannot be read, or its header contradicts itself or the file's size.
    """
    try:
        with path.open("rb") as file:
            content = file.read()
    except OSError as error:
        raise ModelError(
            f"cannot read {path}: {error.strerror or error}; check the path and its permissions"
        ) from error
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(_LONGEST_HEADER, len(content) - 8):
        raise _damaged(path, f"a header of {length} bytes in a file of {len(content)}")
    try:
        header = json.loads(content[8 : 8 + length])
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"the header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise _damaged(path, "the header is not a table of tensors")
    values = memoryview(content)[8 + length :]
    return {name: _tensor(path, name, entry, values) for name, entry in header.items() if name != "__metadata__"}


def _tensor(path: Path, name: str, entry: Any, values: memoryview) -> np.ndarray:
    try:
        kind, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        sound = (
            all(isinstance(number, int) and number >= 0 for number in (*shape, start, end))
            and len(shape) <= 32
            and isinstance(kind, str)
        )
    except (TypeError, KeyError, ValueError) as error:
        raise _damaged(path, f"the header's entry for {name!r} is incomplete") from error
    if not sound:
        raise _damaged(path, f"the header's entry for {name!r} makes no sense")
    if kind not in _DTYPES and kind != "BF16":
        raise ModelError(f"{path}: tensor {name!r} has type {kind!r}; convert it to F32")
    dtype = np.dtype("<u2" if kind == "BF16" else _DTYPES[kind])
    if end > len(values) or end - start != math.prod(shape) * dtype.itemsize:
        raise _damaged(path, f"tensor {name!r} of shape {shape} at bytes {start} to {end} of {len(values)}")
    # A copy, so that the array is aligned.
    array = np.frombuffer(bytes(values[start:end]), dtype).reshape(shape)
    return (array.astype(np.uint32) << 16).view(np.float32) if kind == "BF16" else array


def _damaged(path: Path, problem: str) -> ModelError:
    return ModelError(f"{path} is not a complete safetensors file: {problem}; fetch it again")
