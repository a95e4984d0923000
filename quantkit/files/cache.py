"""What lies in ``QUANTKIT_HOME``: its entries by kind, who uses them, and removing those that nobody does.

A process lists what it uses in a file of its own under ``.in-use``, which it holds locked for as long as it lives.
Whoever removes entries leaves those alone that are listed in a locked file. Links are never followed: what they lead
to is somebody else's.
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
from quantkit.files.temporary import is_temporary, remove, temporary_name

_USES = ".in-use"
_CHECKPOINT = re.compile(r"(.+?)(-symbol\.json|-0000\.params|\.json)")
_JOURNAL = re.compile(r"[0-9a-f]{64}\.jsonl")
_HASH = re.compile(r"[0-9a-f]{16,64}\.json")

_GIGABYTE = 10**9
_WORKLOADS_LIMIT = 10.0


@dataclass(frozen=True)
class Entry:
    """Files and folders that are kept or removed together.

    ``name`` is a path in ``QUANTKIT_HOME``, ``paths`` are in the order of removal, ``size`` is in bytes, ``used`` when
    it was last used, in seconds since 1970.
    """

    name: str
    paths: tuple[Path, ...]
    size: int
    used: float


@dataclass(frozen=True)
class Kind:
    """A folder of ``QUANTKIT_HOME``: ``title`` says what it holds, ``entries`` lists that."""

    name: str
    title: str
    entries: Callable[[], tuple[Entry, ...]]


def use(path: Path) -> None:
    """Keep others from removing an entry, given by its path without endings, until this process ends.

    To be called before one looks whether the entry is there.

    Raises:
        QuantkitError: ``QUANTKIT_HOME`` cannot be written.
    """
    global _own
    home = files.home()
    # From where this process may not write, nobody like it removes anything.
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
    """Note that a file was used just now."""
    # The file of another user may be read and not be touched.
    with suppress(OSError):
        os.utime(path)


def remove_unused(entries: Iterable[Entry], limit: Optional[int] = None) -> tuple[Entry, ...]:
    """Remove entries that no process uses, the least recently used first, until ``limit`` bytes are left or none.

    What cannot be removed stays. Returns what was removed.

    Raises:
        QuantkitError: ``QUANTKIT_HOME`` cannot be written.
    """
    removed = []
    with _alone():
        used = _used()
        ordered = sorted(entries, key=lambda entry: entry.used)
        left = sum(entry.size for entry in ordered)
        for entry in ordered:
            if limit is not None and left <= limit:
                break
            if entry.name not in used and _removed(entry):
                left -= entry.size
                removed.append(entry)
    return tuple(removed)


def workloads() -> tuple[Entry, ...]:
    """The networks, inputs and outputs that were prepared for benchmarks."""
    folder = files.home() / "workloads"
    groups: dict[str, list[Path]] = {}
    for path in _listed(folder / "checkpoints"):
        if match := _CHECKPOINT.fullmatch(path.name):
            groups.setdefault(match[1], []).append(path)
    checkpoints = [_entry(folder / "checkpoints" / stem, *_record_first(paths)) for stem, paths in groups.items()]
    networks = [_entry(path, path) for path in _listed(folder / "networks") if path.is_dir()]
    arrays = [
        _entry(path, path)
        for room, ending in (("inputs", ".npy"), ("references", ".npz"))
        for path in _listed(folder / room)
        if path.suffix == ending
    ]
    return (*checkpoints, *networks, *arrays)


def bound_workloads() -> None:
    """Remove the least recently used workloads beyond 10 GB, or as many as ``QUANTKIT_WORKLOADS_GB`` says.

    Raises:
        UserError: the variable is no number above 0.
        QuantkitError: ``QUANTKIT_HOME`` cannot be written.
    """
    limit = int(_workloads_limit() * _GIGABYTE)
    found = workloads()
    if sum(entry.size for entry in found) > limit:
        remove_unused(found, limit)


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
    """The downloads; the records of what was trusted once are no entries, so that they stay."""
    places = [files.home() / "weights" / source for source in ("gluoncv", "huggingface", "url")]
    found = [path for place in places for path in _listed(place, deep=True)]
    return tuple(_entry(path, path) for path in found if not path.name.endswith(".record.json"))


def _builds() -> tuple[Entry, ...]:
    """The virtual environments; interpreters of the user's own are only recorded, so that they are no entries."""
    folders = [path for path in _listed(files.home() / "builds") if (path / "pyvenv.cfg").is_file()]
    return tuple(_entry(path, path) for path in folders if (path / "build.json").is_file())


def _named(room: str, pattern: re.Pattern[str]) -> tuple[Entry, ...]:
    return tuple(_entry(path, path) for path in _listed(files.home() / room) if pattern.fullmatch(path.name))


KINDS = {
    kind.name: kind
    for kind in (
        Kind("workloads", "prepared for benchmarks", workloads),
        Kind("builds", "engines that benchmarks compare", _builds),
        Kind("weights", "downloaded weights", _weights),
        Kind("engines", "which engine is the fastest for a bundle", lambda: _named("engines", _HASH)),
        Kind("searches", "measurements of mixed-precision searches", lambda: _named("searches", _JOURNAL)),
    )
}


def _entry(key: Path, *paths: Path) -> Entry:
    sizes, times = [], [0.0]
    for path in paths:
        for file in (path, *_inside(path)):
            # It may be on its way out.
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
    """What is removed in part then counts as not there."""
    return sorted(paths, key=lambda path: path.name.endswith(("-symbol.json", ".params")))


def _listed(folder: Path, deep: bool = False) -> list[Path]:
    """What lies in a folder of the home, without links and hidden names; with ``deep`` the files in all its folders."""
    below = [folder, *folder.parents]
    if any(place.is_symlink() for place in below[: below.index(files.home())]):
        return []
    try:
        found = sorted(path for path in folder.iterdir() if not (path.name.startswith(".") or path.is_symlink()))
    except OSError:
        return []
    if not deep:
        return found
    nested = [path for path in found if path.is_dir()]
    return [path for path in found if path not in nested] + [file for path in nested for file in _listed(path, True)]


def _removed(entry: Entry) -> bool:
    try:
        for path in entry.paths:
            if path.is_dir() and not path.is_symlink():
                # From sight in one step, since it takes long.
                gone = temporary_name(path)
                os.rename(path, gone)
                remove(gone)
            else:
                path.unlink(missing_ok=True)
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
    """A new locked list; those of processes that have ended are removed."""
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
    """Whether a path still names what is open."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except OSError:
        return False
