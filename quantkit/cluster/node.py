"""What a worker of a cluster runs on, and what all of them must have in common for their results to be the same."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib import metadata
from typing import Optional

import numpy as np

from quantkit.files.code import code_hash
from quantkit.host.cpu import read_cpu
from quantkit.host.threads import read_threads
from quantkit.version import __version__

_WHEELS = ("mxnet", "mxnet-mkl", "mxnet-cu102")
_REMEDIES = {
    "instructions": "give workers on processors of one kind",
    "settings": "set the same variables for all workers",
}


@dataclass(frozen=True)
class Versions:
    """What decides the result of a computation beside its inputs, in words to compare.

    Attributes:
        quantkit: its version, and the beginning of the hash of its source.
        engine: the installed wheel of MXNet and its version.
        numpy, pillow: their versions, by which images are scaled and decoded.
        instructions: the vector instructions of the processor that engines choose kernels by.
        settings: environment variables that change this choice.
    """

    quantkit: str
    engine: str
    numpy: str
    pillow: str
    instructions: str
    settings: str

    def on_processor_of(self, other: Versions) -> Versions:
        """The same versions where ``other`` is."""
        return replace(self, instructions=other.instructions, settings=other.settings)

    def obstacle(self, expected: Versions, where: str) -> Optional[str]:
        """Why results from ``where``, which has these, would not be those of ``expected``; None if they would."""
        for each in fields(self):
            own, wanted = getattr(self, each.name), getattr(expected, each.name)
            if own != wanted:
                remedy = _REMEDIES.get(each.name, f"install {each.name} {wanted} there")
                return f"{where} has {each.name} {own or 'none'}, others have {wanted or 'none'}; {remedy}"
        return None


@dataclass(frozen=True)
class Node:
    """Where a worker runs: its host, the hardware threads that it may use, and its versions."""

    host: str
    cpus: tuple[int, ...]
    versions: Versions


def this_node() -> Node:
    """The facts of this process; no engine is loaded."""
    cpu = read_cpu()
    engine = next((f"{wheel} {version}" for wheel in _WHEELS if (version := _version(wheel))), "")
    versions = Versions(
        quantkit=f"{__version__} ({code_hash()[:12]})",
        engine=engine,
        numpy=np.__version__,
        pillow=_version("pillow"),
        instructions=", ".join(cpu.isa),
        settings=" ".join(f"{name}={value}" for name, value in read_threads().environment.items() if _matters(name)),
    )
    return Node(f"{socket.gethostname()} {_boot()}", tuple(sorted(os.sched_getaffinity(0))), versions)


def shares(nodes: Mapping[str, Node]) -> dict[str, tuple[int, ...]]:
    """The hardware threads of each worker, by its address: those of a host that several may use are shared out.

    Where a host has more workers than hardware threads, some share one.
    """
    groups: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for address, node in nodes.items():
        groups.setdefault((node.host, node.cpus), []).append(address)
    shared = {}
    for (_, cpus), addresses in groups.items():
        parts = np.array_split(cpus, len(addresses))
        for number, (address, part) in enumerate(zip(sorted(addresses), parts)):
            shared[address] = tuple(map(int, part)) or (cpus[number % len(cpus)],)
    return shared


def _matters(name: str) -> bool:
    return name.startswith(("DNNL_", "MKLDNN_", "ONEDNN_")) and not name.endswith("VERBOSE")


def _boot() -> str:
    """What tells hosts of one name apart, such as containers."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
