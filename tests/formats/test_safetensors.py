"""Reading safetensors: bytes put together by the format's description, and damage of every kind."""

from __future__ import annotations

import json
import os
import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.errors import ModelError
from quantkit.formats.safetensors import read_safetensors


def file_of(header: Any, values: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + values


def read(tmp_path: Path, content: bytes) -> dict[str, np.ndarray]:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    return read_safetensors(path)


def test_tensors_by_name(tmp_path: Path) -> None:
    first, second = np.arange(6, dtype="<f4").reshape(2, 3), np.array([1.5, -2.0], "<f2")
    header = {
        "__metadata__": {"format": "pt"},
        "b": {"dtype": "F16", "shape": [2], "data_offsets": [24, 28]},
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "n": {"dtype": "I64", "shape": [], "data_offsets": [28, 36]},
    }
    tensors = read(tmp_path, file_of(header, first.tobytes() + second.tobytes() + (7).to_bytes(8, "little")))
    assert set(tensors) == {"a", "b", "n"}
    np.testing.assert_array_equal(tensors["a"], first)
    np.testing.assert_array_equal(tensors["b"], second)
    assert tensors["n"] == 7


def test_bfloat16_is_the_upper_half_of_float32(tmp_path: Path) -> None:
    header = {"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}
    tensors = read(tmp_path, file_of(header, np.array([0x3FC0, 0xC000], "<u2").tobytes()))
    np.testing.assert_array_equal(tensors["a"], np.array([1.5, -2.0], np.float32))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>no such file</html>",
        (1 << 63).to_bytes(8, "little") + b"{}",
        file_of(b"{", b""),
        file_of([], b""),
        file_of({"a": {}}, b""),
        file_of({"a": 3}, b""),
        file_of({"a": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}}, bytes(4)),
        file_of({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(3)),
        file_of({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, bytes(4)),
        file_of({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}}, bytes(4)),
        file_of({"a": {"dtype": "F32", "shape": [1 << 62, 4], "data_offsets": [0, 4]}}, bytes(4)),
        file_of({"a": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}}, bytes(8)),
        file_of({"a": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}}, bytes(1)),
        file_of({"a": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}}, bytes(1)),
        file_of({"a": {"dtype": "F32", "shape": [1] * 100, "data_offsets": [0, 4]}}, bytes(4)),
        # The same bytes as two tensors, a part of them, bytes that no tensor has, and a name that stands there twice.
        file_of({name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} for name in "ab"}, bytes(8)),
        file_of(
            {name: {"dtype": "F32", "shape": [2], "data_offsets": [at, at + 8]} for name, at in (("a", 0), ("b", 4))},
            bytes(12),
        ),
        file_of({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(8)),
        file_of({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, bytes(8)),
        file_of(
            b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
            bytes(8),
        ),
        file_of(b"[" * 100_000, b""),
        file_of({f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(30_000)}, b""),
    ],
)
def test_damage_is_a_model_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ModelError, match=r"x\.safetensors"):
        read(tmp_path, content)


def test_any_damage_is_a_model_error_or_nothing(tmp_path: Path) -> None:
    chance = random.Random(5)
    whole = file_of({"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}, bytes(24))
    for _ in range(400):
        content = bytearray(whole)
        for _ in range(chance.choice((1, 2, 8))):
            content[chance.randrange(len(content))] = chance.randrange(256)
        try:
            read(tmp_path, bytes(content))
        except ModelError:
            continue


def test_a_file_of_holes_is_not_read(tmp_path: Path) -> None:
    """A file can be said to have any size, and takes none on the disk."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(file_of({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)))
    os.truncate(path, 2**28)
    tracemalloc.start()
    with pytest.raises(ModelError, match=r"describes .* bytes, and there are 268435456"):
        read_safetensors(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20
