"""The folders of builds under ``QUANTKIT_HOME/builds``, each with its record, ``build.json``.

For a recipe the folder is also a virtual environment; for the user's own interpreter it holds only the
record. A folder appears complete (see ``folders.whole_folder``), and a process that changes one holds its lock.
"""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Optional

from quantkit.benchmark.build import Build
from quantkit.benchmark.workers.instance import worker_files
from quantkit.errors import QuantkitError
from quantkit.files import files
from quantkit.files.temporary import moved_aside
from quantkit.files.text import read_json
from quantkit.progress import Tell

_RECORD = "build.json"


def builds_folder() -> Path:
    """The folder of all builds."""
    return files.home() / "builds"


def folder_of(name: str) -> Path:
    """The folder of a build, whether it exists or not."""
    return builds_folder() / name


def recorded_names() -> tuple[str, ...]:
    """The names of the builds that have a record."""
    return tuple(sorted(path.parent.name for path in builds_folder().glob(f"[!.]*/{_RECORD}")))


def is_environment(name: str) -> bool:
    """Whether the folder is a virtual environment, which belongs to quantkit."""
    return (folder_of(name) / "pyvenv.cfg").is_file()


def size_of(name: str) -> int:
    """The bytes of all files in the folder."""
    total = 0
    for folder, _, names in os.walk(folder_of(name)):
        for path in names:
            with suppress(FileNotFoundError):  # another process may be removing it
                total += os.lstat(os.path.join(folder, path)).st_size
    return total


def interpreter_in(folder: Path) -> Path:
    """The interpreter of the virtual environment in a folder."""
    return folder / "bin" / "python"


def read_record(name: str) -> Optional[Build]:
    """The build as last probed, whatever has changed since; None if there is no readable record."""
    record = _read(name)
    return record[0] if record else None


def read_current(name: str, python: str) -> Optional[Build]:
    """The build as last probed, if its interpreter is ``python`` and nothing has changed since; else None."""
    build, stamp = _read(name) or (None, "")
    is_current = build is not None and build.python == python and stamp != "" and stamp == _stamp(build)
    return build if is_current else None


def _read(name: str) -> Optional[tuple[Build, str]]:
    from pydantic import TypeAdapter

    try:
        record = read_json(folder_of(name) / _RECORD)
        return TypeAdapter(Build).validate_python(record["build"]), str(record["stamp"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def write_record(name: str, build: Build, is_good: bool = True) -> None:
    """Write a build's record; without ``is_good`` it does not count as current.

    Raises:
        QuantkitError: the folder cannot be written.
    """
    _write(folder_of(name), build, _stamp(build) if is_good else "")


def _write(folder: Path, build: Build, stamp: str) -> None:
    with files.writing(folder / _RECORD) as file:
        file.write(json.dumps({"build": asdict(build), "stamp": stamp}, indent=1).encode() + b"\n")


def _stamp(build: Build) -> str:
    """A stamp that changes with the interpreter, the engine's library or the worker; empty if one is missing."""
    try:
        stats = [os.stat(path) for path in (build.python, build.library)]
    except OSError:
        return ""
    workers = map(files.sha256_of, worker_files(build.engine))
    return " ".join([*(f"{stat.st_mtime_ns}:{stat.st_size}" for stat in stats), *workers])


def recorded(name: str, new: Path, build: Build) -> Build:
    """Write the record of a build into ``new``, which will become its folder; returns the build with its final paths.

    Raises:
        QuantkitError: the disk is full.
    """

    def placed(path: str) -> str:
        return str(folder_of(name) / Path(path).relative_to(new)) if Path(path).is_relative_to(new) else path

    stamp = _stamp(build)
    build = replace(build, python=placed(build.python), library=placed(build.library))
    _write(new, build, stamp)
    return build


def set_aside(name: str) -> Path:
    """Move a build's folder to a temporary name, under which the caller removes it.

    Raises:
        QuantkitError: the folder cannot be renamed.
    """
    path = folder_of(name)
    try:
        return moved_aside(path)
    except OSError as error:
        raise QuantkitError(f"cannot rename {path}: {error.strerror or error}; look at who owns it") from error


def locked(name: str, tell: Tell) -> AbstractContextManager[None]:
    """Hold the lock of a build's folder.

    Raises:
        QuantkitError: the folder of all builds cannot be written.
    """
    waiting = partial(tell, f"{name}: waiting for another process that is at work on it")
    return files.locked(builds_folder() / f".{name}.lock", waiting)
