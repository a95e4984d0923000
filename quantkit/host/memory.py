"""How much memory a process may still take."""

from __future__ import annotations

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
