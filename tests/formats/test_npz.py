"""The reader of .npz and .npy files, against numpy's own and against files that mean harm."""

from __future__ import annotations

import errno
import gc
import io
import os
import struct
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.errors import DataError
from quantkit.formats.npz import opened_npz, read_npy, read_npz, write_npz

Array = np.ndarray[Any, Any]

ARRAYS = {
    "x": np.arange(60, dtype=np.float32).reshape(3, 4, 5),
    "y": np.array(7, np.int64),
    "big": np.arange(4, dtype=">f8"),
    "columns": np.asfortranarray(np.arange(6, dtype=np.int8).reshape(2, 3)),
    "empty": np.zeros((0, 3), np.uint8),
    "flags": np.array([True, False]),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_come_back_as_numpy_reads_them(save: Any, tmp_path: Path) -> None:
    save(tmp_path / "x.npz", **ARRAYS)
    found = read_npz(tmp_path / "x.npz")
    assert list(found) == list(ARRAYS)
    with np.load(tmp_path / "x.npz") as archive:
        for name, array in found.items():
            assert array.dtype == archive[name].dtype and array.flags.writeable
            np.testing.assert_array_equal(array, archive[name])


class Full(io.BytesIO):
    """A file on a disk with so much room; each call that writes more fails."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self._room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)


def test_arrays_are_written_as_numpy_writes_them() -> None:
    ours, numpys = io.BytesIO(), io.BytesIO()
    write_npz(ours, ARRAYS)
    np.savez(numpys, **ARRAYS)
    assert ours.getvalue() == numpys.getvalue()


def test_a_full_disk_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    unraised: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraised.append)
    whole = io.BytesIO()
    write_npz(whole, ARRAYS)
    for room in range(0, len(whole.getvalue()), 7):
        with Full(room) as file, pytest.raises(OSError, match="No space left on device"):
            write_npz(file, ARRAYS)
    gc.collect()
    assert not unraised


def test_no_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz")
    assert read_npz(tmp_path / "x.npz") == {}


@pytest.mark.parametrize("name", ARRAYS)
def test_a_single_array(name: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ARRAYS[name])
    found = read_npy(tmp_path / "x.npy")
    assert found.dtype == ARRAYS[name].dtype
    np.testing.assert_array_equal(found, ARRAYS[name])


def npy(shape: object = "(2, 3)", descr: str = "'<f4'", order: str = "False", values: bytes = bytes(24)) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header + b"\n" + values


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy("(4611686018427387904,)"), "its shape needs 18446744073709551616 bytes, and there are 24"),
        (npy("(2, 3)", values=bytes(25)), "its shape needs 24 bytes, and there are 25"),
        (npy("(-2, -3)"), "is damaged"),
        (npy("(True, 24)", "'|u1'"), "cannot read|is damaged"),
        (npy(f"({'9' * 4000},)"), "is damaged"),
        (npy(f"({'9' * 5000},)"), "cannot read"),
        (npy("(2, " + "(" * 3000), "cannot read"),
        (npy("-" * 9000 + "1"), "cannot read"),
        (npy(descr="'|O'"), "is object; only numbers"),
        (npy(descr="[('a', '<f4')]"), r"is \[\('a', '<f4'\)\]; only numbers"),
        (npy(descr="('<f4', (2, 3))", shape="()"), "only numbers"),
        (npy(descr="'<U6'", shape="()"), "is <U6; only numbers"),
        (npy(descr="'<M8[s]'", shape="(3,)"), "only numbers"),
        (npy(descr="'S0'"), "only numbers"),
        (npy(descr="()"), "cannot read"),
        (npy(order="'yes'"), "cannot read"),
        (b"\x93NUMPY\x03\x00" + bytes(100), "version"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{" + bytes(100), "cannot read"),
        (npy()[:40], "cannot read"),
    ],
)
def test_refuses_headers_that_cannot_be(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_npy(tmp_path / "x.npy")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", content)
    with pytest.raises(DataError, match=message):
        read_npz(tmp_path / "x.npz")


def test_a_header_is_not_read_as_long_as_it_says(tmp_path: Path) -> None:
    """Version 2 headers tell their length in 32 bits, and a compressed member of zeros is as long as one likes."""
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", 200_000_000) + bytes(200_000_000))
    tracemalloc.start()
    with pytest.raises(DataError):
        read_npz(tmp_path / "x.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


def np_saved() -> bytes:
    file = io.BytesIO()
    np.savez(file, x=np.ones(3))
    return file.getvalue()


def archived(write: Callable[[zipfile.ZipFile], None], **options: Any) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as archive:
        write(archive)
    return file.getvalue()


def _bomb(archive: zipfile.ZipFile) -> None:
    with archive.open("x.npy", "w") as file:
        file.write(npy(f"({600 * 2**20},)", "'|u1'", values=b""))
        for _ in range(600):
            file.write(bytes(2**20))


def _commented(archive: zipfile.ZipFile) -> None:
    member = zipfile.ZipInfo("x.npy")
    member.comment = b"more"
    archive.writestr(member, npy())


def _twice(archive: zipfile.ZipFile) -> None:
    archive.writestr("x.npy", npy())
    with pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("x.npy", npy())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (archived(_bomb, compression=zipfile.ZIP_DEFLATED), "would unpack to .*, more than the 268435456 allowed"),
        (archived(lambda a: a.writestr("x.npy", npy()), compression=zipfile.ZIP_LZMA), "compressed in a way"),
        (archived(lambda a: a.writestr("x.npy", npy()), compression=zipfile.ZIP_BZIP2), "compressed in a way"),
        (archived(_commented), "nothing else"),
        (archived(_twice), "of different names"),
        (archived(lambda a: a.writestr("notes.txt", "text")), "nothing else"),
        (np_saved()[:-14] + bytes(14), "does not hold arrays"),
    ],
)
def test_refuses_archives_that_numpy_does_not_write(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_npz(tmp_path / "x.npz")


def test_refuses_encrypted_archives(tmp_path: Path) -> None:
    content = bytearray(archived(lambda a: a.writestr("x.npy", npy())))
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + place] |= 1
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(DataError, match="encrypted"):
        read_npz(tmp_path / "x.npz")


def test_entries_of_the_directory_cannot_share_bytes(tmp_path: Path) -> None:
    """Or a file could be unpacked as often as it has names."""
    content = archived(lambda a: a.writestr("x.npy", npy()))
    start, end = content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")
    entries = content[start:end] + content[start:end].replace(b"x.npy", b"y.npy")
    footer = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 2, 2, len(entries), start, 0)
    (tmp_path / "x.npz").write_bytes(content[:start] + entries + footer)
    with pytest.raises(DataError, match=r"File name in directory 'y\.npy' and header"):
        read_npz(tmp_path / "x.npz")


def test_a_name_that_only_the_directory_has(tmp_path: Path) -> None:
    """It would hide an array, also from those who do not read it."""
    np.savez(tmp_path / "x.npz", x=np.ones(3), y=np.ones(3))
    content = bytearray((tmp_path / "x.npz").read_bytes())
    content[content.rindex(b"y.npy")] = ord("z")
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(DataError, match="differ"), opened_npz(tmp_path / "x.npz"):
        pass


def test_a_long_directory_is_not_read(tmp_path: Path) -> None:
    directory = b"".join(
        struct.pack("<4s6H3I5H2I", b"PK\x01\x02", 20, 20, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0) + b"x.npy"
        for _ in range(400_000)
    )
    footer = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, len(directory), 0, 0)
    (tmp_path / "x.npz").write_bytes(directory + footer)
    tracemalloc.start()
    with pytest.raises(DataError, match="its directory has"):
        read_npz(tmp_path / "x.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20
