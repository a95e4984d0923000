"""The processor: its model, its cores, and the vector instructions that INT8 kernels are built from."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

# The flags that oneDNN requires for kernels of each name; fastest last.
_ISA_FLAGS: Mapping[str, frozenset[str]] = {
    "AVX2": frozenset({"avx2", "fma"}),
    "AVX-VNNI": frozenset({"avx2", "avx_vnni"}),
    "AVX512": frozenset({"avx512f", "avx512bw", "avx512vl", "avx512dq"}),
    "AVX512-VNNI": frozenset({"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"}),
    "AMX-INT8": frozenset({"amx_tile", "amx_int8"}),
}


# The instructions that multiply INT8 without 16-bit intermediate sums, the fastest first.
VNNI = ("AMX-INT8", "AVX512-VNNI", "AVX-VNNI")


@dataclass(frozen=True)
class Cpu:
    """The processor, as /proc/cpuinfo and the scheduler describe it.

    ``logical`` and ``physical`` count the machine's hardware threads and cores; ``usable`` is the set of
    hardware threads that this process may run on and ``usable_cores`` the number of cores behind them.
    ``isa`` names the instruction sets that matter for INT8, the fastest last; ``architecture`` is the system's name.
    """

    model: str
    vendor: str
    logical: int
    physical: int
    usable: tuple[int, ...]
    usable_cores: int
    isa: tuple[str, ...]
    architecture: str = "x86_64"

    @property
    def has_vnni(self) -> bool:
        """Whether it multiplies INT8 without intermediate sums that can saturate."""
        return bool(set(VNNI).intersection(self.isa))


def read_cpu(proc: Path = Path("/proc"), affinity: Optional[Collection[int]] = None) -> Cpu:
    """Read the processor's facts from ``proc/cpuinfo``.

    ``affinity`` is the set of hardware threads to count as usable; by default, those that the
    scheduler grants this process. Without a /proc, all cores count as physical and usable.
    """
    threads = _threads(proc / "cpuinfo")
    usable = tuple(sorted(affinity_of_process() if affinity is None else affinity))
    if not threads:
        count = os.cpu_count() or len(usable)
        return Cpu(
            platform.processor() or platform.machine(), "", count, count, usable, len(usable), (), platform.machine()
        )
    cores = {number: _core(number, thread) for number, thread in threads.items()}
    first = next(iter(threads.values()))
    flags = set(first.get("flags", "").split())
    return Cpu(
        model=first.get("model name", platform.machine()),
        vendor=first.get("vendor_id", ""),
        logical=len(threads),
        physical=len(set(cores.values())),
        usable=usable,
        usable_cores=len({cores.get(number, (str(number),)) for number in usable}),
        isa=tuple(name for name, needed in _ISA_FLAGS.items() if needed <= flags),
        architecture=platform.machine(),
    )


def _threads(cpuinfo: Path) -> dict[int, dict[str, str]]:
    """The ``key : value`` block of each hardware thread, by its number."""
    try:
        text = cpuinfo.read_text()
    except OSError:
        return {}
    blocks = [dict(_pair(line) for line in block.splitlines()) for block in text.split("\n\n")]
    return {int(block["processor"]): block for block in blocks if block.get("processor", "").isdigit()}


def _pair(line: str) -> tuple[str, str]:
    key, _, value = line.partition(":")
    return key.strip(), value.strip()


def _core(number: int, thread: Mapping[str, str]) -> tuple[str, ...]:
    """The identity of a hardware thread's physical core; virtual machines may leave it out."""
    if "core id" not in thread:
        return (str(number),)
    return (thread.get("physical id", "0"), thread["core id"])


def affinity_of_process() -> Collection[int]:
    """The hardware threads that the scheduler grants this process; all where the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)
