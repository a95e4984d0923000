"""How much memory a process may still take."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from quantkit.host.limits import read_limits


def available_memory(proc: Path = Path("/proc"), root: Path = Path("/sys/fs/cgroup")) -> Optional[int]:
    """Bytes that may be taken before the system ends processes; None where it does not tell.

    Files: ``MemAvailable`` of ``/proc/meminfo`` (proc(5)), and those of ``read_limits``, whose limit counts in full.
    """
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        return None
    free = (int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    limit = read_limits(proc, root).memory
    return min((*free, *(() if limit is None else (limit,))), default=None)
