"""How much memory processes take, and may still take."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Optional

from quantkit.host.limits import memory_left


def available_memory(proc: Path = Path("/proc"), root: Path = Path("/sys/fs/cgroup")) -> Optional[int]:
    """Bytes that may be allocated before the system kills processes; None if unknown.

    Files: ``MemAvailable`` of ``/proc/meminfo`` (proc(5)), and those of ``limits.memory_left``.
    """
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        lines = []
    free = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    left = memory_left(proc, root)
    return min((*free, *(() if left is None else (left,))), default=None)


def memory_of(pids: Iterable[int], proc: Path = Path("/proc")) -> int:
    """The bytes that processes have in memory; of what they share with others, each has its part.

    Files: ``Pss`` of ``smaps_rollup``, or ``VmRSS`` of ``status`` where that may not be read (proc(5)). Processes that
    have ended count for nothing.
    """
    return sum(_field(proc / str(pid) / "smaps_rollup", "Pss:") or _field(proc / str(pid) / "status", "VmRSS:")
               for pid in pids)  # fmt: skip


def _field(file: Path, name: str) -> int:
    with suppress(OSError):
        for line in file.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) << 10
    return 0
