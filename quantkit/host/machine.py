"""The description of a machine in results, and its identity."""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path
from typing import Any, Optional

from quantkit.host.cpu import Cpu
from quantkit.host.limits import Limits
from quantkit.host.topology import Topology


def describe(
    cpu: Cpu, limits: Limits, topology: Topology, sys: Path = Path("/sys"), proc: Path = Path("/proc")
) -> dict[str, Any]:
    """The facts that decide how fast a network runs here, as JSON's own types.

    ``id`` is equal for machines with the same processor, cores, memory nodes and memory (in whole GiB), whose results
    may be compared.
    """
    hardware = {
        "cpu": cpu.model,
        "isa": list(cpu.isa),
        "sockets": len({core.socket for core in topology.cores}),
        "nodes": len(topology.nodes),
        "cores": cpu.physical,
        "threads": cpu.logical,
        "memory_gib": _memory_gib(proc / "meminfo"),
        "virtual": _is_virtual(proc / "cpuinfo"),
    }
    return {
        "id": hashlib.sha256(json.dumps(hardware, sort_keys=True).encode()).hexdigest()[:16],
        **hardware,
        "usable_cores": cpu.usable_cores,
        "cpu_quota": "unknown" if limits.unreadable else limits.cpu_quota,
        "governor": _text(sys / "devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "turbo": _turbo(sys / "devices/system/cpu"),
        "kernel": platform.release(),
        "heat_counted": throttled(sys) is not None,
    }


def throttled(sys: Path = Path("/sys")) -> Optional[int]:
    """How often the processor has slowed down for heat since it started; None if it does not count that."""
    counters = sys.glob("devices/system/cpu/cpu*/thermal_throttle/core_throttle_count")
    counts = [int(text) for text in map(_text, counters) if text]
    return sum(counts) if counts else None


def _memory_gib(meminfo: Path) -> Optional[int]:
    lines = (_text(meminfo) or "").splitlines()
    kib = next((int(line.split()[1]) for line in lines if line.startswith("MemTotal:")), None)
    return None if kib is None else round(kib / 2**20)


def _is_virtual(cpuinfo: Path) -> Optional[bool]:
    """Whether this system runs under a hypervisor, from the processor's flag of that name; None without flags."""
    flags = [line.split() for line in (_text(cpuinfo) or "").splitlines() if line.startswith("flags")]
    return any("hypervisor" in line for line in flags) if flags else None


def _turbo(folder: Path) -> Optional[bool]:
    """Whether the processor may run above its nominal frequency; None if unknown."""
    no_turbo, boost = _text(folder / "intel_pstate/no_turbo"), _text(folder / "cpufreq/boost")
    if no_turbo is not None:
        return no_turbo == "0"
    return None if boost is None else boost == "1"


def _text(file: Path) -> Optional[str]:
    try:
        return file.read_text().strip()
    except OSError:
        return None
