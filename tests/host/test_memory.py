"""How much memory a process may still take, against files as the kernel writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import pytest

from quantkit.host.memory import available_memory, memory_of

MEMINFO = "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8000000 kB\n"


@pytest.mark.parametrize(
    ("meminfo", "files", "available"),
    [
        (MEMINFO, {"memory.max": "max", "memory.current": "9"}, 8_000_000 * 1024),
        (MEMINFO, {"memory.max": "4096"}, 4096),
        (MEMINFO, {"memory.max": "4096", "memory.current": "4000"}, 96),
        (MEMINFO, {"memory.max": "4096", "memory.current": "5000"}, 0),
        (MEMINFO, {"memory.max": "4096", "memory.current": "4000", "memory.stat": "anon 1\ninactive_file 500\n"}, 596),
        (MEMINFO, {"memory.limit_in_bytes": "4096", "memory.usage_in_bytes": "4000"}, 96),
        (MEMINFO, {"memory.max": str(1 << 40), "memory.current": "9"}, 8_000_000 * 1024),
        ("MemTotal:       16000000 kB\n", {"memory.max": "max"}, None),
        ("MemTotal:       16000000 kB\n", {"memory.max": "4096"}, 4096),
        (None, {"memory.max": "4096"}, 4096),
        (None, {}, None),
    ],
)
def test_available_memory(
    tmp_path: Path, meminfo: Optional[str], files: dict[str, str], available: Optional[int]
) -> None:
    proc, root = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    version_1 = any("in_bytes" in name for name in files)
    group = root / "memory" / "a" if version_1 else root / "a"
    group.mkdir(parents=True)
    (proc / "self" / "cgroup").write_text("4:memory:/a\n" if version_1 else "0::/a\n")
    for name, content in files.items():
        (group / name).write_text(f"{content}\n")
    if meminfo is not None:
        (proc / "meminfo").write_text(meminfo)
    assert available_memory(proc, root) == available


def test_this_machine_has_some() -> None:
    assert 0 < (available_memory() or 0) < 1 << 50


def test_the_memory_of_processes_counts_what_they_share_in_parts(tmp_path: Path) -> None:
    for pid, files in {
        1: {"smaps_rollup": "Rss: 900 kB\nPss: 300 kB\n", "status": "VmRSS: 900 kB\n"},
        2: {"status": "Name: x\nVmRSS: 50 kB\n"},
    }.items():
        (tmp_path / str(pid)).mkdir()
        for name, text in files.items():
            (tmp_path / str(pid) / name).write_text(text)
    assert memory_of([1, 2, 3], tmp_path) == 350 << 10
