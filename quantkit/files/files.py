"""Files written whole or not at all, their names and hashes, and the data files that ship with quantkit."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from quantkit.errors import QuantkitError, UserError
from quantkit.files.temporary import remove_leftovers, temporary_file
from quantkit.files.text import check_name, open_ordinary

# Lone surrogates: Python's form of bytes that are not UTF-8 in names, and of halves of characters in JSON.
_NO_CHARACTERS = re.compile("[\ud800-\udfff]")

_BLOCK = 1 << 20


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open ``path`` for binary writing so that it appears complete or stays as it was, even if the power fails.

    The bytes go to a temporary file in the same folder and to the disk; then the file takes its name in one step. On
    any error, Ctrl-C included, the temporary file is removed, and so are the leftovers of killed processes.
    If ``path`` is a link, the file that it leads to is replaced.

    Raises:
        QuantkitError: the folder cannot be written or the disk is full, or ``path`` is a device, a pipe or a socket.
    """
    try:
        check_name(path)
        target = Path(os.path.realpath(path))
        if path.exists() and not (path.is_file() or path.is_dir()):
            # A rename would replace it.
            raise QuantkitError(f"cannot write {path}: it is not an ordinary file; choose another place")
        remove_leftovers(target.parent)
        with temporary_file(target) as (temporary, descriptor):
            with open(descriptor, "wb", closefd=False) as file:
                yield file
            os.fsync(descriptor)
            os.replace(temporary, target)
        sync_folder(target.parent)
    except OSError as error:
        raise QuantkitError(
            f"cannot write {path}: {error.strerror or error}; free space or choose a folder you may write to"
        ) from error


def sync(path: Path) -> None:
    """Flush a file's content to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    try:
        sync(folder)
    except OSError as error:
        # Some network file systems cannot sync folders: the server decides how safe their names are.
        if error.errno != errno.EINVAL:
            raise


@contextmanager
def locked(path: Path, busy: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of the lock file ``path``.

    If another process holds it, ``busy`` is called, which may raise; then this process waits. The leftovers of killed
    processes beside the lock file are removed.

    Raises:
        QuantkitError: the lock file's folder cannot be made or written.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            busy()
            lock.acquire()
    except OSError as error:
        remedy = "set QUANTKIT_HOME to" if path.is_relative_to(home()) else "choose"
        raise QuantkitError(
            f"cannot write {path.parent}: {error.strerror or error}; {remedy} a folder that you may write to"
        ) from error
    try:
        remove_leftovers(path.parent)
        yield
    finally:
        # Even if closing fails, the descriptor is gone, and the lock with it.
        with suppress(OSError):
            lock.release()


def as_text(name: str) -> str:
    """A file's name as text that can be written: lone surrogates become U+FFFD."""
    return _NO_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", name)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal.

    Raises:
        OSError: the file cannot be read, or is not an ordinary one.
    """
    digest = hashlib.sha256()
    for block in blocks_of(path):
        digest.update(block)
    return digest.hexdigest()


def blocks_of(path: Path) -> Iterator[bytes]:
    """A file's bytes, from first to last.

    Raises:
        OSError: the file cannot be read, or is not an ordinary one.
    """
    with open_ordinary(path) as file:
        yield from iter(lambda: file.read(_BLOCK), b"")


def shipped(name: str) -> Path:
    """The folder of data files named ``name`` (``models``, ``calibration``, ``benchmarks``) that ships with quantkit.

    In an installed wheel it is inside the package, in a checkout beside it.
    """
    package = Path(__file__).resolve().parents[1]
    installed = package / "shipped" / name
    return installed if installed.is_dir() else package.parent / name


def home() -> Path:
    """The folder for downloads and caches: ``$QUANTKIT_HOME``, or ``~/.cache/quantkit``.

    A ``~`` at its beginning is the user's home folder, since not everything that sets the variable is a shell.

    Raises:
        UserError: the user has no home folder, which is needed where the variable is not set or begins with ``~``; or
            no folder can be there, because its name is too long or a folder above it may not be entered.
    """
    try:
        path = Path(os.environ.get("QUANTKIT_HOME") or "~/.cache/quantkit").expanduser()
    except RuntimeError as error:
        raise UserError("this user has no home folder; set QUANTKIT_HOME to a folder that you may write to") from error
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise UserError(
            f"cannot keep anything in {path}: {error.strerror}; set QUANTKIT_HOME to a folder that you may write to"
        ) from error
    return path
