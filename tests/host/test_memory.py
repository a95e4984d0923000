"""How much memory a process may still take, against files as the kernel writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import pytest

from quantkit.host.memory import available_memory

MEMINFO = "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8000000 kB\n"


@pytest.mark.parametrize(
    ("meminfo", "limit", "available"),
    [
        (MEMINFO, "max", 8_000_000 * 1024),
        (MEMINFO, "4096", 4096),
        (MEMINFO, str(1 << 40), 8_000_000 * 1024),
        ("MemTotal:       16000000 kB\n", "max", None),
        ("MemTotal:       16000000 kB\n", "4096", 4096),
        (None, "4096", None),
    ],
)
def test_available_memory(tmp_path: Path, meminfo: Optional[str], limit: str, available: Optional[int]) -> None:
    proc, root = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (root / "a").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("0::/a\n")
    (root / "a" / "memory.max").write_text(f"{limit}\n")
    if meminfo is not None:
        (proc / "meminfo").write_text(meminfo)
    assert available_memory(proc, root) == available


def test_this_machine_has_some() -> None:
    assert 0 < (available_memory() or 0) < 1 << 50
