"""The machine's layout: NUMA nodes, sockets, physical cores and their hardware threads."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from quantkit.host.cpu import read_cpu
from quantkit.host.limits import read_limits


@dataclass(frozen=True)
class Core:
    """A physical core: its hardware threads (SMT siblings) by number, and those of them that this process may use."""

    socket: int
    node: int
    cpus: tuple[int, ...]
    usable: tuple[int, ...]


@dataclass(frozen=True)
class Node:
    """A NUMA node; ``memory`` are the nearest nodes with memory that this process may use: itself if possible.

    ``memory`` is empty if the system does not show it.
    """

    number: int
    memory: tuple[int, ...]


@dataclass(frozen=True)
class Topology:
    """All online cores, ordered by socket, node and number, and all nodes.

    ``quota`` is the processor time that the control groups allow, in cores; None if unlimited.
    """

    cores: tuple[Core, ...]
    nodes: tuple[Node, ...]
    quota: Optional[float] = None


def read_topology(
    sys: Path = Path("/sys"),
    proc: Path = Path("/proc"),
    cgroup: Path = Path("/sys/fs/cgroup"),
    affinity: Optional[Collection[int]] = None,
) -> Topology:
    """Read the layout from sysfs, and what this process may use of it.

    A hardware thread whose core is unknown counts as a core; a machine without NUMA nodes has one.

    Args:
        sys: the mount point of sysfs.
        proc: the mount point of procfs.
        cgroup: the mount point of the control groups.
        affinity: the hardware threads that may be used; by default, those that the scheduler grants this process.
    """
    usable = frozenset(read_cpu(proc).usable if affinity is None else affinity)
    online = _list(sys / "devices/system/cpu/online") or tuple(sorted(usable))
    folders = {int(path.name[4:]): path for path in _numbered(sys / "devices/system/node", "node")}
    homes = {cpu: number for number, folder in folders.items() for cpu in _list(folder / "cpulist")}
    cores = _cores(sys / "devices/system/cpu", online, homes, usable)
    nodes = tuple(Node(number, memory) for number, memory in sorted(_memory(folders, proc).items())) or (Node(0, ()),)
    return Topology(cores, nodes, read_limits(proc, cgroup).cpu_quota)


def with_siblings(cpus: Collection[int], sys: Path = Path("/sys")) -> tuple[int, ...]:
    """Hardware threads and all that share a core with one of them, ascending."""
    return tuple(sorted({each for cpu in cpus for each in _siblings(sys / "devices/system/cpu", cpu)}))


def parse_list(text: str) -> tuple[int, ...]:
    """The numbers in a list as Linux writes it, such as ``0-3,8``, ascending."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first:
            numbers.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(numbers))


def _cores(
    folder: Path, online: Collection[int], homes: Mapping[int, int], usable: Collection[int]
) -> tuple[Core, ...]:
    # The kernel's lists of siblings take package, die and core into account.
    groups: dict[int, list[int]] = {}
    for cpu in online:
        groups.setdefault(min(_siblings(folder, cpu)), []).append(cpu)
    cores = [
        Core(
            socket=_number(folder / f"cpu{cpus[0]}" / "topology/physical_package_id"),
            # A core without a node goes to the first.
            node=homes.get(cpus[0], min(homes.values(), default=0)),
            cpus=tuple(cpus),
            usable=tuple(cpu for cpu in cpus if cpu in usable),
        )
        for cpus in groups.values()
    ]
    return tuple(sorted(cores, key=lambda core: (core.socket, core.node, core.cpus)))


def _siblings(folder: Path, cpu: int) -> tuple[int, ...]:
    """The hardware threads that share a core with one, itself included; itself alone if unknown."""
    topology = folder / f"cpu{cpu}" / "topology"
    return _list(topology / "core_cpus_list") or _list(topology / "thread_siblings_list") or (cpu,)


def _memory(folders: Mapping[int, Path], proc: Path) -> dict[int, tuple[int, ...]]:
    """For every node, the nearest nodes with memory that this process may use."""
    status = re.search(r"^Mems_allowed_list:(.*)", _text(proc / "self/status"), re.MULTILINE)
    allowed = set(parse_list(status[1])) if status else set(folders)
    offering = [number for number in sorted(folders) if number in allowed and _has_memory(folders[number])]
    nearest = {}
    for number, folder in folders.items():
        # The row has a column for every existing node, ascending; 10 is the node itself, after ACPI's SLIT.
        row = [int(field) for field in _text(folder / "distance").split()]
        if len(row) != len(folders):
            row = [10 if other == number else 20 for other in sorted(folders)]
        distance = dict(zip(sorted(folders), row))
        least = min((distance[other] for other in offering), default=0)
        nearest[number] = tuple(other for other in offering if distance[other] == least)
    return nearest


def _has_memory(folder: Path) -> bool:
    total = re.search(r"MemTotal:\s*(\d+)", _text(folder / "meminfo"))
    return total is None or int(total[1]) > 0


def _numbered(folder: Path, prefix: str) -> list[Path]:
    return [path for path in folder.glob(f"{prefix}[0-9]*") if path.name[len(prefix) :].isdigit()]


def _list(file: Path) -> tuple[int, ...]:
    return parse_list(_text(file))


def _number(file: Path) -> int:
    text = _text(file)
    return int(text) if text.isdigit() else 0


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
