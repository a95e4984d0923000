"""Runs one command again and again, with another of its writes failing each time; see ``test_faults``.

    LD_PRELOAD=shim.so python -m tests.faults.driver VERB FOLDER SHARE SEED

The heavy part of the command is done once, here; each attempt is a fork that does the rest as the command line does.
The last line of standard output is JSON: how many points there are, how many were tried, and what went wrong at which.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from quantkit.files.temporary import is_temporary
from tests.faults.verb import Verb
from tests.faults.verbs import VERBS

ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EACCES)
_PATIENCE = 120.0
_LIBRARY = ctypes.CDLL(None)


@dataclass(frozen=True)
class Ended:
    """How an attempt ended: its exit code (negative: a signal), and what it printed."""

    code: int
    said: str


def attempt(verb: Verb, base: Path, at: int = 0, error: int = 0, log: Path | None = None) -> Ended:
    """Run the command in a fork, with the call number ``at`` failing, none for 0."""
    said = base / "said"
    child = os.fork()
    if child == 0:
        code = 70
        try:
            output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.chdir(base / "work")
            trace = -1 if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            if at or log:
                _LIBRARY.faults_arm(os.fsencode(base / "work"), ctypes.c_long(at), error, trace)
            verb.run()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except BaseException:
            traceback.print_exc()
        finally:
            _LIBRARY.faults_arm(b"", ctypes.c_long(0), 0, -1)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return Ended(os.waitstatus_to_exitcode(status), said.read_text(errors="replace"))
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return Ended(-99, f"hangs: {said.read_text(errors='replace')}")


def fresh(base: Path) -> None:
    """The folder as it is before the command, with the older result."""
    shutil.rmtree(base / "work", ignore_errors=True)
    shutil.copytree(base / "before", base / "work")


def leftovers(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if is_temporary(path.name)]


def problems(verb: Verb, base: Path, at: int, error: int) -> Iterator[str]:
    """What is wrong after the call number ``at`` has failed, or the process was killed there."""
    fresh(base)
    ended = attempt(verb, base, at, error)
    if error == 0:
        if ended.code != -signal.SIGKILL:
            yield f"was not killed: {ended}"
    elif ended.code not in (0, 1):
        yield f"ended with {ended.code}: {ended.said[-600:]}"
    elif ended.code == 1 and ("Error: " not in ended.said or "Traceback" in ended.said or "unexpected" in ended.said):
        yield f"has no proper error: {ended.said[-600:]}"
    state = verb.state(base / "work")
    if state not in ("old", "new"):
        yield f"left {state}"
    if error and ended.code == 0 and state != "new":
        yield f"reports success and leaves the {state} result: {ended.said[-300:]}"
    again = attempt(verb, base)
    if again.code != 0 or verb.state(base / "work") != "new":
        yield f"the next command ended with {again.code} and {verb.state(base / 'work')}: {again.said[-600:]}"
    if left := leftovers(base / "work"):
        yield f"the next command left {left}"


def unsynced(log: str) -> Iterator[str]:
    """What took its good name before its content was on the disk, and which names never were brought there."""
    written: set[str] = set()
    open_names: dict[str, str] = {}
    for line in log.splitlines():
        call, path, other = line.split("\t")
        if call in ("write", "truncate", "create"):
            written.add(path)
        elif call == "sync":
            written.discard(path)
            open_names.pop(path, None)
        elif call == "unlink":
            written.discard(path)
        elif call in ("rename", "exchange") and is_temporary(Path(path).name) and not is_temporary(Path(other).name):
            if early := sorted(each for each in written if each == path or each.startswith(f"{path}/")):
                yield f"{early} took the name {other} unsynced"
            open_names[str(Path(other).parent)] = other
    yield from (f"{name} was given and its folder not synced" for name in open_names.values())


def _error(call: str, at: int) -> int:
    """The error that the call number ``at`` fails with."""
    error = ERRORS[at % len(ERRORS)]
    # To a lock some file systems answer so where another process has it.
    return errno.EIO if (call, error) == ("lock", errno.EACCES) else error


def main(name: str, folder: str, share: str, seed: str) -> None:
    """Try ``share`` of the points (0 to 1, each with a kill and an error), chosen by ``seed``."""
    base = Path(folder).resolve()
    for part in ("before/tmp", "before/home"):
        (base / part).mkdir(parents=True)
    # Not only the variable: the module remembers.
    import tempfile

    tempfile.tempdir = str(base / "work" / "tmp")
    os.environ["QUANTKIT_HOME"] = str(base / "work" / "home")
    fresh(base)
    verb = VERBS[name](base)
    fresh(base)
    log = base / "log"
    found = []
    names: list[str] = []
    for older in (False, True):
        # Once where there is no older result, and then in place of one.
        fresh(base)
        if not older:
            verb.remove(base / "work")
        ended = attempt(verb, base, log=log)
        if ended.code != 0 or verb.state(base / "work") != "new":
            found.append(f"without a fault: {ended.code}, {verb.state(base / 'work')}: {ended.said[-2000:]}")
        found += unsynced(log.read_text())
        names = [line.split("\t")[0] for line in log.read_text().splitlines()]
    points = [(at, kind) for at in range(1, len(names) + 1) for kind in ("error", "kill")]
    chosen = (
        points
        if float(share) >= 1
        else random.Random(int(seed)).sample(points, max(4, round(float(share) * len(points))))
    )
    for at, kind in chosen:
        error = _error(names[at - 1], at) if kind == "error" else 0
        for problem in problems(verb, base, at, error):
            found.append(f"{kind} {error} at {at} ({names[at - 1]}): {problem}")
    print(json.dumps({"points": len(points), "tried": len(chosen), "problems": found}))


if __name__ == "__main__":
    main(*sys.argv[1:])
