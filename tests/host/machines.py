"""Machines as the folders that Linux describes them in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from quantkit.host.topology import Topology, read_topology


@dataclass(frozen=True)
class Machine:
    """Cores as (socket, node, hardware threads); ``memory`` in GiB by node; ``offline`` hardware threads.

    ``distances`` are the rows of the nodes, ``status`` and ``cgroup`` the process's limits.
    """

    cores: tuple[tuple[int, Optional[int], tuple[int, ...]], ...]
    memory: Mapping[int, int]
    offline: frozenset[int] = frozenset()
    distances: Optional[Mapping[int, tuple[int, ...]]] = None
    mems_allowed: Optional[str] = None
    cgroup: Mapping[str, str] = field(default_factory=dict)

    @property
    def online(self) -> set[int]:
        """The hardware threads that are not offline."""
        return {cpu for _, _, cpus in self.cores for cpu in cpus} - self.offline

    def write(self, folder: Path) -> None:
        """Make the folders ``sys`` and ``proc``."""
        cpu_folder = folder / "sys/devices/system/cpu"
        everything = {cpu for _, _, cpus in self.cores for cpu in cpus}
        _write(cpu_folder / "online", written(self.online))
        _write(cpu_folder / "possible", written(everything))
        _write(cpu_folder / "present", written(everything))
        for number, (socket, _, cpus) in enumerate(self.cores):
            package = {cpu for other, _, mates in self.cores if other == socket for cpu in mates} & self.online
            for cpu in cpus:
                if cpu:  # Linux gives the first one no such switch
                    _write(cpu_folder / f"cpu{cpu}/online", "0" if cpu in self.offline else "1")
                if cpu not in self.offline:
                    topology = cpu_folder / f"cpu{cpu}/topology"
                    _write(topology / "core_id", str(number))
                    _write(topology / "physical_package_id", str(socket))
                    for name, mates in (("core_cpus", set(cpus) & self.online), ("package_cpus", package)):
                        _write(topology / name, _mask(mates))
                        _write(topology / f"{name}_list", written(mates))
        if self.memory:
            self._write_nodes(folder / "sys/devices/system/node")
        allowed = self.mems_allowed or written(self.memory)
        _write(folder / "proc/self/status", f"Name:\tpython\nMems_allowed:\t1\nMems_allowed_list:\t{allowed}")
        _write(folder / "proc/self/cgroup", "3:cpu,cpuacct:/\n0::/")
        for name, text in self.cgroup.items():
            _write(folder / "cgroup" / name, text)

    def _write_nodes(self, folder: Path) -> None:
        _write(folder / "online", written(self.memory))
        for node, memory in self.memory.items():
            own = {cpu for _, home, cpus in self.cores if home == node for cpu in cpus} & self.online
            _write(folder / f"node{node}/cpumap", _mask(own))
            _write(folder / f"node{node}/cpulist", written(own))
            _write(folder / f"node{node}/meminfo", f"Node {node} MemTotal:       {memory << 20} kB")
            row = self.distances[node] if self.distances else [10 if other == node else 20 for other in self.memory]
            _write(folder / f"node{node}/distance", " ".join(map(str, row)))

    def read(self, folder: Path, affinity: Optional[Collection[int]] = None) -> Topology:
        """Write the folders and have them read by a process with that affinity; by default with all."""
        self.write(folder)
        usable = {cpu for _, _, cpus in self.cores for cpu in cpus} if affinity is None else affinity
        return read_topology(folder / "sys", folder / "proc", folder / "cgroup", usable)


def machine(sockets: int = 1, nodes: int = 1, cores: int = 2, smt: int = 1) -> Machine:
    """``nodes`` on each socket, ``cores`` on each node; the second threads are numbered after all first ones."""
    total = sockets * nodes * cores
    return Machine(
        cores=tuple(
            (core // (nodes * cores), core // cores, tuple(core + total * thread for thread in range(smt)))
            for core in range(total)
        ),
        memory=dict.fromkeys(range(sockets * nodes), 8),
    )


def written(numbers: Collection[int]) -> str:
    """A list as Linux writes it, such as ``0-3,8``."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _mask(numbers: Collection[int]) -> str:
    digits = f"{sum(1 << number for number in numbers):x}"
    digits = digits.zfill(-(-len(digits) // 8) * 8)
    return ",".join(digits[first : first + 8] for first in range(0, len(digits), 8))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")
