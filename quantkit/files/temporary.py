"""Temporary names for incomplete files and folders, and the removal of those that killed processes left.

The process that works on a temporary file or folder holds a lock on it, which the system frees when the process
ends, however it ends. A file with a temporary name and no lock is a leftover. On file systems without such
locks (folders on NFS) this cannot be told, and leftovers stay.
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

# `new` is going to its place; `old` was moved out of it where the two could not be exchanged in one step.
_NAME = re.compile(r"\.(?P<target>.+)\.[0-9a-f]{16}\.quantkit-(?P<state>new|old)", re.DOTALL)

# The temporary paths of this process, for removal when it ends without unwinding.
_own: set[Path] = set()


def temporary_name(target: Path, state: str = "new") -> Path:
    """A free name beside ``target``."""
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.quantkit-{state}")


def is_temporary(name: str) -> bool:
    """Whether a name has the form that ``temporary_name`` gives."""
    return _NAME.fullmatch(name) is not None


@contextmanager
def temporary_file(target: Path) -> Iterator[tuple[Path, int]]:
    """A new file beside ``target``, to be renamed to it, and its descriptor; removed at the end unless renamed."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with _owned(target, lambda path: os.open(path, flags, 0o666)) as (path, descriptor):
        yield path, descriptor


@contextmanager
def temporary_folder(target: Path, mode: int = 0o777) -> Iterator[Path]:
    """A new empty folder beside ``target``, to be renamed to it; removed at the end unless renamed."""

    def made(path: Path) -> Optional[int]:
        path.mkdir(mode)
        with suppress(FileNotFoundError):
            return _opened(path, os.O_DIRECTORY)
        return None

    with _owned(target, made) as (path, _):
        yield path


@contextmanager
def _owned(target: Path, make: Callable[[Path], Optional[int]]) -> Iterator[tuple[Path, int]]:
    """The path and the locked descriptor of what ``make`` makes and opens under a temporary name.

    Another process may remove it as a leftover before it is locked; then it is made again.
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
    """Lock an open file if no process has; returns whether the lock is ours and ``path`` still names the file."""
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
    """Remove a file, or a folder with its content, as far as possible."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def moved_aside(path: Path) -> Path:
    """Give a file or a folder that is to be removed a temporary name, so that it vanishes in one step.

    Raises:
        OSError: it cannot be renamed.
    """
    gone = temporary_name(path)
    os.rename(path, gone)
    return gone


def remove_at_once(path: Path) -> None:
    """Remove a file or a folder that must never be seen partly removed: rename it first.

    Raises:
        OSError: it cannot be renamed.
    """
    remove(moved_aside(path))


def remove_own() -> None:
    """Remove this process's temporary files and folders before it ends, even while another thread works on them."""
    for path in tuple(_own):
        # The other thread could otherwise rename a partly removed folder into place.
        with suppress(OSError):
            remove_at_once(path)


def remove_leftovers(folder: Path) -> None:
    """Remove the leftovers of killed processes in ``folder``; an older folder moves back if its place is empty."""
    try:
        with os.scandir(folder) as entries:
            candidates = [(Path(entry.path), match) for entry in entries if (match := _NAME.fullmatch(entry.name))]
    except OSError:
        return
    for path, match in candidates:
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
