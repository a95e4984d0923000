"""The folder of a run: claiming it, and continuing or discarding the run in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from quantkit.benchmark.results.result_files import CELLS, RUN, as_recorded, read_run, write_run
from quantkit.benchmark.results.results import DISCARDED, Run
from quantkit.errors import QuantkitError, UserError
from quantkit.files import files
from quantkit.files.temporary import is_temporary, remove_leftovers

_LOCK = ".lock"

# The facts of a host that may not change within a run.
_HOST = {"host": ("id", "usable_cores", "cpu_quota"), "frequency settings": ("governor", "turbo")}


@contextmanager
def claimed(folder: Path, first: str = RUN) -> Iterator[None]:
    """Claim a folder for a run; a new folder is removed at the end if no run began in it.

    ``first`` is the name of the file that every run begins with.

    Raises:
        UserError: it holds something else, or another process is measuring into it.
        QuantkitError: it cannot be created or written.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; choose a folder with --out")
    if folder.is_dir() and not (folder / first).is_file() and any(not _is_ours(path.name) for path in folder.iterdir()):
        raise UserError(f"{folder} is not empty and holds no benchmark results; choose another folder with --out")

    def busy() -> None:
        raise UserError(f"another process is measuring into {folder}; wait for it, or choose another folder with --out")

    with files.locked(folder / _LOCK, busy):
        remove_leftovers(folder / CELLS)
        with suppress(UserError):
            if (folder / RUN).is_file() and read_run(folder).state == DISCARDED:
                # By a process that was killed before it was done with it.
                discard(folder)
        try:
            yield
        finally:
            if not (folder / first).is_file():
                (folder / _LOCK).unlink(missing_ok=True)
                with suppress(OSError):
                    folder.rmdir()


def continued(run: Run, folder: Path) -> Run:
    """The run with the warnings of an earlier run in the folder, and its minutes if that was interrupted.

    Raises:
        UserError: the folder holds another run, or one that is damaged.
    """
    if not (folder / RUN).is_file():
        return run
    earlier = read_run(folder)
    other = _differing(earlier, run)
    if other:
        raise UserError(
            f"{folder} holds another run ({' and '.join(other)} differ); choose another folder with --out, "
            "or discard it with --force"
        )
    warnings = tuple(dict.fromkeys((*run.warnings, *earlier.warnings)))
    return replace(run, warnings=warnings, minutes=0.0 if earlier.state == "finished" else earlier.minutes)


def begin(run: Run, folder: Path) -> None:
    """Begin a run in a folder.

    Raises:
        QuantkitError: it cannot be written.
    """
    # Its description comes first: a folder with only cells would not be recognised.
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_run(run, folder)
        (folder / CELLS).mkdir(exist_ok=True)
    except OSError as error:
        raise QuantkitError(f"cannot write {folder}: {error.strerror or error}; choose another with --out") from error


def discard(folder: Path) -> None:
    """Remove the run that a folder holds, if any.

    The run is marked as discarded before its first cell is removed, so that a partly removed run is not read.

    Raises:
        QuantkitError: it cannot be removed.
    """
    if not (folder / RUN).is_file():
        return
    try:
        with suppress(UserError):  # a damaged run needs no mark
            write_run(replace(read_run(folder), state=DISCARDED), folder)
        if (folder / CELLS).is_dir():
            shutil.rmtree(folder / CELLS)
        (folder / RUN).unlink()
    except OSError as error:
        raise QuantkitError(
            f"cannot remove the results in {folder}: {error.strerror or error}; choose another folder with --out"
        ) from error


def _is_ours(name: str) -> bool:
    return name == _LOCK or is_temporary(name)


def _differing(earlier: Run, run: Run) -> list[str]:
    """The differences between two runs, except for their networks, which are compared later, cell by cell."""
    run = as_recorded(run)
    same = ("name", "scenario", "contestants", "baseline", "builds", "revision")
    other = [name for name in same if getattr(earlier, name) != getattr(run, name)]
    return other + [name for name, facts in _HOST.items() if any(earlier.host.get(f) != run.host.get(f) for f in facts)]
