"""The one file in a zip archive, and archives of every other kind: one of our errors, in bounded memory and time."""

from __future__ import annotations

import io
import random
import stat
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from quantkit.errors import WeightsUnavailable
from quantkit.models.archive import only_member

CONTENT = bytes(range(256)) * 20
LARGEST = 1 << 20


def zipped(content: bytes = CONTENT, name: str = "net.params", method: int = zipfile.ZIP_DEFLATED) -> bytes:
    return several([(zipfile.ZipInfo(name), content)], method)


def several(
    files: list[tuple[zipfile.ZipInfo, bytes]], method: int = zipfile.ZIP_DEFLATED, comment: bytes = b""
) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = comment
        for info, content in files:
            archive.writestr(info, content, method)
    return file.getvalue()


def entry(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def changed(local: int, central: int, value: bytes, archive: bytes = zipped()) -> bytes:
    """An archive with other bytes at two offsets: in the file's own header, and in the directory."""
    whole, directory = bytearray(archive), archive.index(b"PK\1\2")
    whole[local : local + len(value)] = value
    whole[directory + central : directory + central + len(value)] = value
    return bytes(whole)


def with_zip64_end() -> bytes:
    """An archive whose true directory is named by a second record before its end."""
    whole = zipped()
    end = len(whole) - 22
    size, offset = struct.unpack("<II", whole[end + 12 : end + 20])
    record = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, size, offset)
    return whole[:end] + record + struct.pack("<4sIQI", b"PK\6\7", 0, end, 1) + whole[end:]


def more_files_than_stated() -> bytes:
    whole = several([(zipfile.ZipInfo(f"{i}"), b"") for i in range(3000)])
    return whole[:-14] + struct.pack("<HH", 1, 1) + whole[-10:]


def lies_about_its_size() -> bytes:
    return changed(22, 24, struct.pack("<I", 10))


ARCHIVES: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "damaged"),
    "no-archive": (lambda: b"<html>not found</html>" * 10, "not a plain zip"),
    "cut": (lambda: zipped()[:-30], "not a plain zip|damaged"),
    "two-files": (lambda: several([(zipfile.ZipInfo("a"), b"a"), (zipfile.ZipInfo("b"), b"b")]), "lists 2 files"),
    "no-files": (lambda: several([]), "lists 0 files"),
    "many-files": (lambda: several([(zipfile.ZipInfo(f"{i}"), b"") for i in range(3000)]), "lists 3000 files"),
    "more-files-than-stated": (more_files_than_stated, "its directory takes"),
    "comment": (lambda: several([(zipfile.ZipInfo("a"), b"a")], comment=b"hello"), "not a plain zip"),
    "zip64": (with_zip64_end, "not a plain zip"),
    "absolute": (lambda: zipped(name="/etc/passwd"), "leads out"),
    "upwards": (lambda: zipped(name="../../x.params"), "leads out"),
    "upwards-windows": (lambda: zipped(name="..\\x.params"), "leads out"),
    "drive": (lambda: zipped(name="C:x.params"), "leads out"),
    "folder": (lambda: several([(entry("folder/", stat.S_IFDIR | 0o755), b"")]), "ordinary file"),
    "link": (lambda: several([(entry("net.params", stat.S_IFLNK | 0o777), b"/etc/passwd")]), "ordinary file"),
    "device": (lambda: several([(entry("net.params", stat.S_IFCHR | 0o666), b"")]), "ordinary file"),
    "encrypted": (lambda: changed(6, 8, b"\1\0"), "encrypted"),
    "strongly-encrypted": (lambda: changed(6, 8, b"\x41\0"), "encrypted"),
    "lzma": (lambda: zipped(method=zipfile.ZIP_LZMA), "method 14"),
    "bzip2": (lambda: zipped(method=zipfile.ZIP_BZIP2), "method 12"),
    "unknown-method": (lambda: changed(8, 10, b"\x63\0"), "method 99"),
    "patched-data": (lambda: changed(6, 8, b"\x20\0"), "damaged"),
    "bomb": (lambda: zipped(bytes(LARGEST + 1)), "more than the 1048576"),
    "lies-about-its-size": (lies_about_its_size, "damaged"),
    "wrong-checksum": (lambda: changed(14, 16, b"abcd"), "damaged"),
}


def read(tmp_path: Path, archive: bytes) -> bytes:
    path = tmp_path / "x.part"
    path.write_bytes(archive)
    return b"".join(only_member(path, "the address", LARGEST))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("name", ["net.params", "models/net.params", "net..1.params"])
def test_the_one_file(tmp_path: Path, method: int, name: str) -> None:
    assert read(tmp_path, zipped(name=name, method=method)) == CONTENT


@pytest.mark.parametrize("kind", ARCHIVES)
def test_other_archives_are_refused(tmp_path: Path, kind: str) -> None:
    make, complaint = ARCHIVES[kind]
    with pytest.raises(WeightsUnavailable, match=f"(?s)the address delivered.*({complaint})"):
        read(tmp_path, make())


def test_a_bomb_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.part"
    path.write_bytes(zipped(bytes(64 << 20)))
    tracemalloc.start()
    assert sum(map(len, only_member(path, "x", 64 << 20))) == 64 << 20
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


def test_any_damage_is_one_of_our_errors_or_nothing(tmp_path: Path) -> None:
    chance = random.Random(5)
    whole = zipped(b"some values " * 20)
    for _ in range(500):
        archive = bytearray(whole)
        for _ in range(chance.choice((1, 2, 8))):
            archive[chance.randrange(len(archive))] = chance.randrange(256)
        try:
            assert len(read(tmp_path, bytes(archive))) <= LARGEST
        except WeightsUnavailable:
            continue
