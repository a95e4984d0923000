"""The cache in ``QUANTKIT_HOME``: its entries by kind, the processes that use them, and removing unused ones.

Each process lists the entries that it uses in a separate file under ``.in-use``, which it keeps locked until it ends.
Entries that are listed in a locked file are not removed. Links are never followed, since they lead out of the cache.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from quantkit.errors import QuantkitError, UserError
from quantkit.files import files
from quantkit.files.temporary import is_temporary, moved_aside, remove

_USES = ".in-use"
_CHECKPOINT = re.compile(r"(.+?)(-symbol\.json|-0000\.params|\.json)")
_JOURNAL = re.compile(r"[0-9a-f]{64}\.jsonl")
_SHARDS = re.compile(r"[0-9a-f]{64}")
_HASH = re.compile(r"[0-9a-f]{16,64}\.json")

_GIGABYTE = 10**9
_WORKLOADS_LIMIT = 10.0


@dataclass(frozen=True)
class Entry:
    """Files and folders that are kept or removed together.

    ``name`` is a path in ``QUANTKIT_HOME``, ``paths`` are in the order of removal, ``size`` is in bytes, ``used`` is
    the time of the last use, in seconds since 1970.
    """

    name: str
    paths: tuple[Path, ...]
    size: int
    used: float


@dataclass(frozen=True)
class Kind:
    """A folder of ``QUANTKIT_HOME``: ``title`` describes its content, ``entries`` lists it."""

    name: str
    title: str
    entries: Callable[[], tuple[Entry, ...]]


def use(path: Path) -> None:
    """Protect an entry, given by its path without suffixes, from removal until this process ends.

    Call it before checking whether the entry exists.

    Raises:
        QuantkitError: ``QUANTKIT_HOME`` cannot be written.
    """
    global _own
    home = files.home()
    # Other processes of this user cannot remove anything here either.
    if home.exists() and not os.access(home, os.W_OK):
        return
    with _alone():
        if _own is None or _own[0] != home or not _is_named(*_own[1:]):
            if _own is not None:
                os.close(_own[2])
            _own = (home, *_new_list(home / _USES))
        os.write(_own[2], os.fsencode(_name(path)) + b"\0")


# The home, the list of what this process uses there, and its descriptor, which holds the lock.
_own: Optional[tuple[Path, Path, int]] = None


@contextmanager
def unused_elsewhere(path: Path) -> Iterator[None]:
    """Have an entry that no other process uses, and that none begins to use until the block ends.

    What this process itself uses is no obstacle. The block must not call ``use``.

    Raises:
        QuantkitError: another process uses the entry, or ``QUANTKIT_HOME`` cannot be written.
    """
    with _alone():
        if _name(path) in _used(but=_own and _own[1]):
            raise QuantkitError(f"another process uses {path}; wait until it has ended, or end it")
        yield


def touch(path: Path) -> None:
    """Set a file's time of last use to now."""
    # Another user's file may be readable, but not touchable.
    with suppress(OSError):
        os.utime(path)


def remove_unused(entries: Iterable[Entry], limit: Optional[int] = None) -> tuple[Entry, ...]:
    """Remove entries that no process uses, the least recently used first, down to ``limit`` bytes (None: all of them).

    Entries that cannot be removed stay. Returns the removed ones.

    Raises:
        QuantkitError: ``QUANTKIT_HOME`` cannot be written.
    """
    removed: list[Entry] = []
    gone: list[Path] = []
    with _alone():
        used = _used()
        ordered = sorted(entries, key=lambda entry: entry.used)
        left = sum(entry.size for entry in ordered)
        for entry in ordered:
            if limit is not None and left <= limit:
                break
            if entry.name not in used and _vanished(entry, gone):
                left -= entry.size
                removed.append(entry)
    # It may take long, and others wait for the lock.
    for path in gone:
        remove(path)
    return tuple(removed)


def workloads() -> tuple[Entry, ...]:
    """The networks, inputs and outputs prepared for benchmarks."""
    folder = files.home() / "workloads"
    groups: dict[str, list[Path]] = {}
    for path in _listed(folder / "checkpoints"):
        if match := _CHECKPOINT.fullmatch(path.name):
            groups.setdefault(match[1], []).append(path)
    checkpoints = [_entry(folder / "checkpoints" / stem, *_record_first(paths)) for stem, paths in groups.items()]
    networks = [_entry(path, path) for path in _listed(folder / "networks") if path.is_dir()]
    arrays = [
        _entry(path, path)
        for name, ending in (("inputs", ".npy"), ("references", ".npz"))
        for path in _listed(folder / name)
        if path.suffix == ending
    ]
    return (*checkpoints, *networks, *arrays)


def bound_workloads() -> None:
    """Remove the least recently used workloads beyond 10 GB, or ``QUANTKIT_WORKLOADS_GB``.

    Raises:
        UserError: the variable is not a number above 0.
        QuantkitError: ``QUANTKIT_HOME`` cannot be written.
    """
    limit = int(_workloads_limit() * _GIGABYTE)
    entries = workloads()
    if sum(entry.size for entry in entries) > limit:
        remove_unused(entries, limit)


def _workloads_limit() -> float:
    text = os.environ.get("QUANTKIT_WORKLOADS_GB", "")
    try:
        value = float(text) if text else _WORKLOADS_LIMIT
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise UserError(f"QUANTKIT_WORKLOADS_GB is a number of gigabytes above 0, such as 10, not {text!r}")
    return value


def _weights() -> tuple[Entry, ...]:
    """The downloads, without the records of trusted files, which stay."""
    places = [files.home() / "weights" / source for source in ("gluoncv", "huggingface", "url")]
    downloads = [path for place in places for path in _listed(place, deep=True)]
    return tuple(_entry(path, path) for path in downloads if not path.name.endswith(".record.json"))


def _builds() -> tuple[Entry, ...]:
    """The virtual environments, without the user's own interpreters, which are only recorded."""
    folders = [path for path in _listed(files.home() / "builds") if (path / "pyvenv.cfg").is_file()]
    return tuple(_entry(path, path) for path in folders if (path / "build.json").is_file())


def _named(folder: str, pattern: re.Pattern[str]) -> tuple[Entry, ...]:
    return tuple(_entry(path, path) for path in _listed(files.home() / folder) if pattern.fullmatch(path.name))


KINDS = {
    kind.name: kind
    for kind in (
        Kind("workloads", "prepared for benchmarks", workloads),
        Kind("builds", "engines that benchmarks compare", _builds),
        Kind("weights", "downloaded weights", _weights),
        Kind("engines", "which engine is the fastest for a bundle", lambda: _named("engines", _HASH)),
        Kind("shards", "partial results of work on clusters", lambda: _named("shards", _SHARDS)),
        Kind("searches", "measurements of mixed-precision searches", lambda: _named("searches", _JOURNAL)),
    )
}


def _entry(key: Path, *paths: Path) -> Entry:
    sizes, times = [], [0.0]
    for path in paths:
        for file in (path, *_inside(path)):
            # Another process may be removing it.
            with suppress(OSError):
                status = file.lstat()
                sizes.append(0 if file.is_dir() and not file.is_symlink() else status.st_size)
                times.append(status.st_mtime)
    return Entry(_name(key), paths, sum(sizes), max(times))


def _inside(path: Path) -> Iterator[Path]:
    if not path.is_symlink():
        for folder, folders, names in os.walk(path):
            yield from (Path(folder, name) for name in (*folders, *names))


def _record_first(paths: Iterable[Path]) -> list[Path]:
    """The paths with the record first: without it, a partly removed entry counts as missing."""
    return sorted(paths, key=lambda path: path.name.endswith(("-symbol.json", ".params")))


def _listed(folder: Path, deep: bool = False) -> list[Path]:
    """The paths in a folder of the home, without links and hidden names; with ``deep`` all files below it."""
    below = [folder, *folder.parents]
    if any(place.is_symlink() for place in below[: below.index(files.home())]):
        return []
    try:
        paths = sorted(path for path in folder.iterdir() if not (path.name.startswith(".") or path.is_symlink()))
    except OSError:
        return []
    if not deep:
        return paths
    nested = [path for path in paths if path.is_dir()]
    return [path for path in paths if path not in nested] + [file for path in nested for file in _listed(path, True)]


def _vanished(entry: Entry, gone: list[Path]) -> bool:
    """Move an entry aside, and add what is to be removed to ``gone``; whether all of the entry could be moved."""
    try:
        for path in entry.paths:
            with suppress(FileNotFoundError):
                gone.append(moved_aside(path))
    except OSError:
        return False
    return True


def _name(path: Path) -> str:
    return os.path.relpath(path, files.home())


@contextmanager
def _alone() -> Iterator[None]:
    folder = files.home() / _USES
    try:
        with files.locked(folder / ".lock", lambda: None):
            yield
    except OSError as error:
        raise QuantkitError(
            f"cannot write {folder}: {error.strerror or error}; free space, or set QUANTKIT_HOME to a folder that you "
            "may write to"
        ) from error


def _new_list(folder: Path) -> tuple[Path, int]:
    """A new locked list; removes the lists of processes that have ended."""
    _used()
    path = folder / f"{os.getpid()}-{secrets.token_hex(4)}"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    with suppress(OSError):  # without locks on this file system, others take the list for that of a living process
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return path, descriptor


def _used(but: Optional[Path] = None) -> set[str]:
    """The names of what living processes use, without those in the list ``but``; the caller has the lock."""
    names: set[str] = set()
    for path in files.home().joinpath(_USES).iterdir():
        if path == but or path.name.startswith(".") or is_temporary(path.name):
            continue
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        except OSError:
            with open(descriptor, "rb", closefd=False) as file:
                names.update(map(os.fsdecode, file.read().split(b"\0")))
        finally:
            os.close(descriptor)
    return names


def _is_named(path: Path, descriptor: int) -> bool:
    """Whether a path still names the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except OSError:
        return False
