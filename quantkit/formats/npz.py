"""Arrays in ``.npz`` and ``.npy`` files; every size is checked before use, and nothing is unpickled.

The formats: numpy.lib.format, and PKWARE's APPNOTE.TXT for the archive.
"""

from __future__ import annotations

import io
import os
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from quantkit.errors import DataError
from quantkit.files.text import open_ordinary

_NPY: Any = np.lib.format
_SUFFIX = ".npy"
_READERS = {(1, 0): _NPY.read_array_header_1_0, (2, 0): _NPY.read_array_header_2_0}

# numpy's own bound on a header, plus the bytes before it.
_LONGEST_HEADER = 10_000 + 12

# Some 300,000 arrays.
_LONGEST_DIRECTORY = 2**24

# An archive may unpack to this many bytes, or to this many times its own size if that is more.
_MOST_UNPACKED = 2**28
_MOST_TIMES = 100

# The bytes of an archive without members.
_EMPTY = 22

_ENCRYPTED = 1

# Characters of a name that a message shows.
_SHOWN = 100

# The exceptions by which zipfile and numpy report damage.
_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    OverflowError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class Header:
    """An array's header; its values begin ``start`` bytes into its ``.npy`` file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran_order: bool
    start: int


class Archive:
    """An open ``.npz`` file. ``names`` are those of its arrays, in order."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._archive = archive
        self._members = {member.filename[: -len(_SUFFIX)]: member for member in archive.infolist()}
        self.names = tuple(self._members)

    def header(self, name: str) -> Header:
        """The header of an array, checked against the size of its values.

        Raises:
            DataError: it is damaged, or the array does not hold numbers.
        """
        with self._archive.open(self._members[name]) as file:
            return _header(file, self._members[name].file_size, f"array {name!r} of {self._path}")

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """An array with all its values.

        Raises:
            DataError: it is damaged, or does not hold numbers.
        """
        self.header(name)
        with self._archive.open(self._members[name]) as file:
            array: np.ndarray[Any, Any] = _NPY.read_array(file, allow_pickle=False)
            # The checksum is compared at the end.
            file.read(1)
        return array

    def values(self, name: str) -> IO[bytes]:
        """The ``.npy`` file of an array, header included, open for reading."""
        return self._archive.open(self._members[name])


@contextmanager
def opened_npz(path: Path) -> Iterator[Archive]:
    """Open the archive at ``path``; any failure inside the context becomes a ``DataError``.

    It may unpack to 256 MiB, or to 100 times its own size if that is more.

    Raises:
        DataError: it cannot be read, is damaged or not an ``.npz`` archive, or unpacks to more.
    """
    with _telling_damage(path), _Reader(open_ordinary(path).detach()) as file, zipfile.ZipFile(file) as archive:
        file.longest = sys.maxsize
        _check_members(archive, os.fstat(file.fileno()).st_size, path)
        yield Archive(path, archive)


def read_npz(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """All arrays of an ``.npz`` file by name.

    Raises:
        DataError: as for ``opened_npz``, or an array is damaged or does not hold numbers.
    """
    with opened_npz(path) as archive:
        return {name: archive.read(name) for name in archive.names}


def write_npz(file: IO[bytes], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write arrays by name, to the same bytes as ``numpy.savez``.

    That leaves the archive open if the disk is full, and it complains again when it is collected.

    Raises:
        OSError: the file cannot be written.
    """
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}{_SUFFIX}", "w", force_zip64=True) as member:
                _NPY.write_array(member, array, allow_pickle=False)


@contextmanager
def opened_npy(path: Path) -> Iterator[tuple[Header, IO[bytes]]]:
    """The header of the array at ``path``, and its file; any failure inside the context becomes a ``DataError``.

    Raises:
        DataError: it cannot be read, is damaged, or does not hold numbers.
    """
    with _telling_damage(path), open_ordinary(path) as file:
        yield _header(file, os.fstat(file.fileno()).st_size, str(path)), file


def read_npy(path: Path) -> np.ndarray[Any, Any]:
    """The array of an ``.npy`` file.

    Raises:
        DataError: it cannot be read, is damaged, or does not hold numbers.
    """
    with opened_npy(path) as (_, file):
        file.seek(0)
        array: np.ndarray[Any, Any] = _NPY.read_array(file, allow_pickle=False)
        return array


@contextmanager
def _telling_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(f"cannot read {path}: {reason}; save it again with numpy") from error


class _Reader(io.BufferedReader):
    """A file that returns at most ``longest`` bytes at once: ``ZipFile`` reads an archive's whole directory."""

    longest = _LONGEST_DIRECTORY

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > self.longest:
            raise zipfile.BadZipFile(f"its directory has {size} bytes")
        return super().read(size)


def _check_members(archive: zipfile.ZipFile, size: int, path: Path) -> None:
    """Check that an archive of ``size`` bytes has the form that numpy writes and is not a zip bomb."""
    members = archive.infolist()
    names = {member.filename for member in members}
    # Comments can swallow the entries that follow.
    odd = any(member.comment or not member.filename.endswith(_SUFFIX) for member in members)
    hidden = not members and size > _EMPTY
    if hidden or odd or len(names) != len(members):
        raise DataError(f"{path} does not hold arrays of different names, and nothing else; save it again with numpy")
    for member in members:
        if member.flag_bits & _ENCRYPTED or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(
                f"{member.filename[:_SHOWN]!r} of {path} is encrypted or compressed in a way that numpy does not use; "
                "save it again with numpy.savez"
            )
        # The directory has no checksum, but the archive holds each name twice, and opening compares them.
        archive.open(member).close()
    unpacked = sum(member.file_size for member in members)
    most = max(_MOST_UNPACKED, _MOST_TIMES * size)
    if unpacked > most:
        raise DataError(
            f"{path} has {size} bytes and would unpack to {unpacked}, more than the {most} allowed; "
            "if that is intended, save it uncompressed with numpy.savez"
        )


def _header(file: IO[bytes], size: int, where: str) -> Header:
    """The header at the beginning of ``file``, which has ``size`` bytes."""
    # Headers state their own length, which cannot be trusted.
    beginning = io.BytesIO(file.read(_LONGEST_HEADER))
    version = _NPY.read_magic(beginning)
    if version not in _READERS:
        raise DataError(f"{where} has the .npy version {version}, which quantkit does not read; save it again")
    shape, fortran_order, dtype = _READERS[version](beginning)
    if dtype.kind not in "biufc":
        remedy = "; pad or cut sequences to one length, so that they are one array" if dtype.kind == "O" else ""
        raise DataError(f"{where} is {str(dtype)[:_SHOWN]}; only numbers are read{remedy}")
    header = Header(shape, dtype, fortran_order, beginning.tell())
    needed, there = prod(shape) * dtype.itemsize, size - header.start
    if min(shape, default=0) < 0 or needed != there:
        raise DataError(f"{where} is damaged: its shape needs {needed} bytes, and there are {there}; save it again")
    return header
