"""Temporary names: what is not complete yet lies under one, and what a killed process left under one is removed.

The process that works on a temporary file or folder holds a lock on it, which the system frees when the process
ends, however it ends. What has a temporary name and nobody's lock is a leftover. Where a file system has no such
locks (folders on NFS) nothing can be proven, and leftovers stay.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Optional

# `new` is on its way to its place; `old` was taken out of it, where the two could not be exchanged in one step.
_NAME = re.compile(r"\.(?P<target>.+)\.[0-9a-f]{16}\.quantkit-(?P<state>new|old)", re.DOTALL)

# What this process works on, for the one who ends it without unwinding.
_own: set[Path] = set()


def temporary_name(target: Path, state: str = "new") -> Path:
    """A name beside ``target`` that nothing has."""
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.quantkit-{state}")


def is_temporary(name: str) -> bool:
    """Whether a name is one that ``temporary_name`` gives."""
    return _NAME.fullmatch(name) is not None


@contextmanager
def temporary_file(target: Path) -> Iterator[tuple[Path, int]]:
    """A new file on the way to ``target``, beside it, and a descriptor of it; gone at the end if it is still there."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with _owned(target, lambda path: os.open(path, flags, 0o666)) as (path, descriptor):
        yield path, descriptor


@contextmanager
def temporary_folder(target: Path, mode: int = 0o777) -> Iterator[Path]:
    """A new empty folder on the way to ``target``, beside it; gone at the end if still there."""

    def made(path: Path) -> Optional[int]:
        path.mkdir(mode)
        with suppress(FileNotFoundError):
            return _opened(path, os.O_DIRECTORY)
        return None

    with _owned(target, made) as (path, _):
        yield path


@contextmanager
def _owned(target: Path, make: Callable[[Path], Optional[int]]) -> Iterator[tuple[Path, int]]:
    """What ``make`` makes and opens under a temporary name, locked.

    Who removes leftovers may take it for one before it is locked; then there is another attempt.
    """
    while True:
        path = temporary_name(target)
        _own.add(path)
        try:
            descriptor = make(path)
            if descriptor is None:
                continue
            try:
                if locked_alone(descriptor, path):
                    yield path, descriptor
                    return
            finally:
                os.close(descriptor)
        finally:
            remove(path)
            _own.discard(path)


def locked_alone(descriptor: int, path: Path) -> bool:
    """Take the lock on what is open, if nobody has it; whether it is ours now, and still what ``path`` names."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EBADF, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            raise
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    return False


def remove(path: Path) -> None:
    """Remove a file or a folder with all that it holds, as far as that is possible."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def remove_at_once(path: Path) -> None:
    """Remove a file or a folder so that nobody sees it removed in part: it loses its name first.

    Raises:
        OSError: it cannot be renamed.
    """
    gone = temporary_name(path)
    os.rename(path, gone)
    remove(gone)


def remove_own() -> None:
    """Remove all that this process works on under temporary names; for its end, while another thread is at work."""
    for path in tuple(_own):
        # The other thread could give a good name to what is removed in part.
        with suppress(OSError):
            remove_at_once(path)


def remove_leftovers(folder: Path) -> None:
    """Remove what processes that were killed left in ``folder``; an older folder goes back where its place is empty."""
    try:
        with os.scandir(folder) as entries:
            found = [(Path(entry.path), match) for entry in entries if (match := _NAME.fullmatch(entry.name))]
    except OSError:
        return
    for path, match in found:
        with suppress(OSError):
            _remove_leftover(path, folder / match["target"] if match["state"] == "old" else None)


def _remove_leftover(path: Path, place: Optional[Path]) -> None:
    status = os.lstat(path)
    if status.st_uid != os.geteuid() or not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        return
    descriptor = _opened(path, os.O_DIRECTORY if stat.S_ISDIR(status.st_mode) else os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            return
        if place is not None and not os.path.lexists(place):
            os.rename(path, place)
        else:
            remove(path)
    finally:
        os.close(descriptor)


def _opened(path: Path, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)
