"""The .params reader and writer, against MXNet's own and against damaged files."""

from __future__ import annotations

import io
import random
import struct
from pathlib import Path

import numpy as np
import pytest

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.errors import ModelError
from quantkit.formats.mxnet.params import check_finite, plain_names, read_params, write_params

DTYPES = ["float32", "float64", "float16", "uint8", "int32", "int8", "int64"]


def some_arrays() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    return {f"arg:{dtype}": (generator.standard_normal((3, 2, 5)) * 50).astype(dtype) for dtype in DTYPES} | {
        "aux:one": np.ones((1,), np.float32),
        "features.0.weight": np.zeros((2, 3), np.float32),
    }


def encoded(arrays: dict[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    write_params(file, arrays)
    return file.getvalue()


def read(tmp_path: Path, content: bytes) -> dict[str, np.ndarray]:
    path = tmp_path / "x.params"
    path.write_bytes(content)
    return read_params(path)


def assert_same(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> None:
    assert list(left) == list(right)
    for name, array in left.items():
        assert array.dtype == right[name].dtype, name
        np.testing.assert_array_equal(array, right[name], err_msg=name)


def test_reads_what_mxnet_writes(tmp_path: Path) -> None:
    mxnet = load_mxnet()
    arrays = some_arrays()
    path = tmp_path / "x.params"
    mxnet.nd.save(str(path), {name: mxnet.nd.array(value, dtype=value.dtype) for name, value in arrays.items()})
    assert_same(dict(sorted(read_params(path).items())), dict(sorted(arrays.items())))


def test_mxnet_reads_what_we_write(tmp_path: Path) -> None:
    arrays = some_arrays()
    path = tmp_path / "x.params"
    path.write_bytes(encoded(arrays))
    loaded = load_mxnet().nd.load(str(path))
    assert_same(dict(sorted((name, value.asnumpy()) for name, value in loaded.items())), dict(sorted(arrays.items())))


def test_bytes_are_those_of_mxnet(tmp_path: Path) -> None:
    mxnet = load_mxnet()
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    path = tmp_path / "x.params"
    mxnet.nd.save(str(path), {"arg:w": mxnet.nd.array(array)})
    assert path.read_bytes() == encoded({"arg:w": array})


def test_non_contiguous_arrays_keep_their_values(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    np.testing.assert_array_equal(read(tmp_path, encoded({"w": array}))["w"], array)


def old_format(magic: int | None) -> bytes:
    """A file of one float32 array of shape (2, 3) as releases before 1.0 wrote it; without magic, as before 0.11."""
    values = np.arange(6, dtype="<f4").tobytes()
    shape = struct.pack("<I2I", 2, 2, 3) if magic is None else struct.pack("<II2q", magic, 2, 2, 3)
    return (
        struct.pack("<QQQ", 0x112, 0, 1)
        + shape
        + struct.pack("<iii", 1, 0, 0)
        + values
        + struct.pack("<QQ", 1, 5)
        + b"arg:w"
    )


@pytest.mark.parametrize("magic", [None, 0xF993FAC8])
def test_old_formats(tmp_path: Path, magic: int | None) -> None:
    path = tmp_path / "x.params"
    path.write_bytes(old_format(magic))
    np.testing.assert_array_equal(read_params(path)["arg:w"], load_mxnet().nd.load(str(path))["arg:w"].asnumpy())


GOOD = encoded({"arg:w": np.ones((2, 3), np.float32)})
AXES = 24 + 8  # where the number of axes stands in GOOD
DATA = AXES + 4 + 16 + 12


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "needs 8 bytes and 0 are left"),
        (b"PK\3\4" + bytes(100), "wrong magic number"),
        (GOOD[:16] + struct.pack("<Q", 1 << 60) + GOOD[24:], "arrays do not fit"),
        (GOOD[:AXES] + b"\xff\xff\xff\xff" + GOOD[AXES + 4 :], "0xffffffff axes"),
        (GOOD[:AXES] + bytes(4) + GOOD[AXES + 4 :], "never given values"),
        (GOOD[: AXES + 4] + struct.pack("<2q", 1 << 40, 1 << 40) + GOOD[AXES + 20 :], "needs"),
        (GOOD[: AXES + 4] + struct.pack("<2q", -2, -3) + GOOD[AXES + 20 :], "shape"),
        (GOOD[: DATA - 4] + struct.pack("<i", 99) + GOOD[DATA:], "unknown type flag 99"),
        (GOOD[: AXES - 4] + struct.pack("<i", 1) + GOOD[AXES:], "row_sparse"),
        (GOOD[:-5] + b"\xff\xff\xff\xff\xff", "not UTF-8"),
        (GOOD[:-13] + struct.pack("<Q", 1 << 50) + GOOD[-5:], "a name of"),
        (GOOD[:-21] + struct.pack("<Q", 0), "not a list"),
        (GOOD + b"more", "4 bytes follow the end"),
    ],
)
def test_damage_is_named_with_its_place(tmp_path: Path, content: bytes, complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint) as caught:
        read(tmp_path, content)
    assert "x.params" in str(caught.value)
    assert "at byte" in str(caught.value)


def test_duplicate_names(tmp_path: Path) -> None:
    content = bytearray(encoded({"a": np.ones(1, np.float32), "b": np.ones(1, np.float32)}))
    content[-1:] = b"a"
    with pytest.raises(ModelError, match="'a' occurs twice"):
        read(tmp_path, bytes(content))


def test_missing_file_and_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.params", tmp_path):
        with pytest.raises(ModelError, match="cannot read"):
            read_params(path)


def test_any_damage_is_a_model_error_or_nothing(tmp_path: Path) -> None:
    chance = random.Random(3)
    whole = encoded(some_arrays())
    for _ in range(1500):
        content = bytearray(whole)
        for _ in range(chance.choice((1, 1, 3, 100))):
            content[chance.randrange(len(content))] = chance.randrange(256)
        cut = chance.choice((len(content), chance.randrange(len(content))))
        try:
            read(tmp_path, bytes(content[:cut]))
        except ModelError:
            continue


@pytest.mark.parametrize("cut", range(len(GOOD)))
def test_every_truncation_is_found(tmp_path: Path, cut: int) -> None:
    with pytest.raises(ModelError):
        read(tmp_path, GOOD[:cut])


def test_what_the_format_cannot_hold() -> None:
    for value in (np.float32(1), np.ones((0, 3), np.float32), np.ones(2, np.complex64)):
        with pytest.raises(ModelError, match="'w'"):
            encoded({"w": np.asarray(value)})


def test_check_finite_counts_what_is_repeated() -> None:
    columns = np.broadcast_to(np.array([1, np.nan, 2, -np.inf], np.float32), (3, 5, 4))
    for repeated, count in ((columns, 30), (columns[..., 1:2], 15), (columns[:, :, ::2], 0), (columns[:0], 0)):
        if count:
            with pytest.raises(ModelError, match=rf"'w' \({count} of {repeated.size} values\)"):
                check_finite({"w": repeated}, "x.params")
        else:
            check_finite({"w": repeated}, "x.params")


def test_check_finite_names_arrays() -> None:
    check_finite({"w": np.ones(3, np.float32), "i": np.ones(3, np.int8)}, "x")
    with pytest.raises(ModelError, match=r"x.params.*'w' \(2 of 3 values\)"):
        check_finite({"w": np.array([np.nan, 1, np.inf], np.float32)}, "x.params")


def test_plain_names() -> None:
    one, two = np.ones(1), np.zeros(1)
    assert plain_names({"arg:w": one, "aux:m": two, "x": one}, "f") == {"w": one, "m": two, "x": one}
    with pytest.raises(ModelError, match="'w' occurs twice"):
        plain_names({"arg:w": one, "aux:w": two}, "f")


def test_damage_that_shows_is_refused(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    path = tmp_path / "x.params"
    with path.open("wb") as file:
        write_params(file, {"arg:w": random.normal(size=(64, 64)).astype(np.float32)})
    data = bytearray(path.read_bytes())
    for position in random.integers(200, len(data) - 100, 100):
        data[position] = random.integers(256)
    path.write_bytes(data)
    with pytest.raises(ModelError, match="damaged"):
        check_finite(read_params(path), "x.params")
