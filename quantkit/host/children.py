"""The processes that this one has started, and those that they have started."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_LOOK_EVERY = 0.01
_PATIENCE = 1.0


def descendants(pid: int) -> tuple[int, ...]:
    """The children of a process, their children, and so on; empty without a /proc."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    pids = list(children.get(pid, ()))
    for each in pids:
        pids.extend(children.get(each, ()))
    return tuple(pids)


def kill_descendants() -> None:
    """Kill all descendants of this process; returns when none lives, or after a second."""
    deadline = time.monotonic() + _PATIENCE
    # Processes that a survivor starts meanwhile are killed in the next round.
    while (pids := descendants(os.getpid())) and time.monotonic() < deadline:
        for each in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
        time.sleep(_LOOK_EVERY)


def _parents() -> Iterator[tuple[int, int]]:
    """Each living process and its parent, after proc(5)."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                yield int(path.parent.name), int(parent)
