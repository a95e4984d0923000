"""Extracting the only file of a downloaded zip archive in bounded memory, time and size."""

from __future__ import annotations

import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from quantkit.errors import WeightsUnavailable

_BLOCK = 1 << 20
# The record at an archive's end, without a comment, and the longest directory that one entry needs.
_END = struct.Struct("<4s4HIIH")
_LONGEST_DIRECTORY = 1 << 16
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
# The exceptions that zipfile raises for damaged, encrypted or unsupported archives.
_DAMAGE = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, struct.error,
    OSError, EOFError, ValueError, RuntimeError, KeyError, IndexError, OverflowError,
)  # fmt: skip


def only_member(archive: Path, url: str, largest: int) -> Iterator[bytes]:
    """The bytes of the only file in a zip archive, in blocks.

    Args:
        archive: the archive.
        url: where it came from, for messages.
        largest: how many bytes the file may have.

    Raises:
        WeightsUnavailable: the archive is damaged, does not hold exactly one ordinary file, that file is
            encrypted or larger than ``largest``, or its name leads out of the archive.
    """
    try:
        _check_directory(archive, url)
        with zipfile.ZipFile(archive) as opened:
            (member,) = opened.infolist()
            _check(member, url, largest)
            # zipfile reads no more than the stated size, whatever the compressed bytes would expand to.
            with opened.open(member) as file:
                while block := file.read(_BLOCK):
                    yield block
    except _DAMAGE as error:
        raise WeightsUnavailable(f"{url} delivered a damaged archive ({error})") from error


def _check_directory(archive: Path, url: str) -> None:
    """Reject a directory that would take memory out of proportion; zipfile reads all of it at once."""
    with archive.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _END.size))
        signature, _, _, _, entries, directory, _, comment = _END.unpack(file.read())
        file.seek(max(0, size - _END.size - 20))
        if signature != b"PK\5\6" or comment or file.read(4) == b"PK\6\7":
            raise _refused(url, "it is not a plain zip archive")
    if entries != 1:
        raise _refused(url, f"it lists {entries} files, not one")
    if directory > _LONGEST_DIRECTORY:
        raise _refused(url, f"its directory takes {directory} bytes")


def _check(member: zipfile.ZipInfo, url: str, largest: int) -> None:
    name, mode = PurePosixPath(member.filename.replace("\\", "/")), member.external_attr >> 16
    if name.is_absolute() or ".." in name.parts or ":" in member.filename:
        raise _refused(url, f"the name {member.filename!r} leads out of it")
    if member.is_dir() or (stat.S_IFMT(mode) and not stat.S_ISREG(mode)):
        raise _refused(url, f"{member.filename!r} is not an ordinary file")
    if member.flag_bits & _ENCRYPTED:
        raise _refused(url, "it is encrypted")
    if member.compress_type not in _COMPRESSIONS:
        raise _refused(url, f"its compression method {member.compress_type} is not read")
    if member.file_size > largest:
        raise _refused(url, f"its file has {member.file_size} bytes, more than the {largest} allowed")


def _refused(url: str, problem: str) -> WeightsUnavailable:
    return WeightsUnavailable(f"{url} delivered an archive that is not accepted: {problem}")
