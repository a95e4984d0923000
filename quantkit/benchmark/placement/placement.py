"""Placement of instances on hardware threads and memory nodes.

Policies, all of them with one OpenMP thread for each core of an instance, on the core's first usable
hardware thread:

- ``node``: an instance on each NUMA node;
- ``core``: an instance on each core;
- ``latency``: one instance on the cores of one node, the largest;
- ``machine``: one instance on all cores;
- ``NxM``: N instances of M cores, spread over the nodes; none lies on several, unless M is more than each has;
- ``N``: N instances, as large as possible;
- ``unpinned``: one instance that runs wherever the system puts it.

With ``:smt`` after any of them, each hardware thread counts as a core, siblings next to each other.
Where the control group's quota is less than the cores, policies without a number take that many of them,
from all nodes alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Optional

from quantkit.errors import UserError
from quantkit.host.topology import Topology

_POLICY = re.compile(
    r"(?:(?P<name>node|core|latency|machine|unpinned)|(?P<instances>[1-9]\d*)(?:x(?P<cores>[1-9]\d*))?)(?P<smt>:smt)?"
)
POLICIES = (
    "node, core, latency, machine, unpinned, N and NxM (N instances, of M cores), and each with :smt to use all "
    "hardware threads of a core, such as 2x4:smt"
)

# The available hardware threads, by node.
_Free = Mapping[int, Sequence[int]]


@dataclass(frozen=True)
class Placement:
    """One instance: its hardware threads, its memory nodes (None: any) and its number of OpenMP threads.

    ``cpus`` is None for an instance that is not pinned.
    """

    cpus: Optional[tuple[int, ...]]
    nodes: Optional[tuple[int, ...]]
    threads: int


def place(policy: str, topology: Topology) -> tuple[Placement, ...]:
    """The instances of a policy on a machine, in the order of nodes and hardware threads.

    Raises:
        UserError: there is no such policy, or it needs more than the machine has.
    """
    asked = _POLICY.fullmatch(policy)
    if asked is None:
        raise UserError(f"there is no placement {policy!r}; there are {POLICIES}")
    free = _free(topology, smt=asked["smt"] is not None)
    if not free:
        raise UserError("this process may use none of the machine's cores; widen its affinity (taskset) or its cpuset")
    most = _affordable(free, topology)
    dealt = _dealt(free, most)
    if asked["instances"]:
        groups = _counted(asked, free, most)
    elif asked["name"] == "node":
        groups = list(dealt.values())
    elif asked["name"] == "core":
        groups = [[cpu] for cpu in _joined(dealt)]
    elif asked["name"] == "latency":
        groups = [max(free.values(), key=len)[:most]]
    elif asked["name"] == "machine":
        groups = [_joined(dealt)]
    else:
        return (Placement(None, None, most),)
    return tuple(_placement(cpus, topology) for cpus in groups)


def is_policy(policy: str) -> bool:
    """Whether there is such a policy, possible on this machine or not."""
    return _POLICY.fullmatch(policy) is not None


def _free(topology: Topology, smt: bool) -> _Free:
    free: dict[int, list[int]] = {}
    for core in topology.cores:
        if core.usable:
            free.setdefault(core.node, []).extend(core.usable if smt else core.usable[:1])
    return free


def _affordable(free: _Free, topology: Topology) -> int:
    """The number of threads that the control group's quota can keep running; at least one."""
    total = len(_joined(free))
    return total if topology.quota is None else max(1, min(total, int(topology.quota)))


def _dealt(free: _Free, count: int) -> _Free:
    """``count`` of the threads, taken from the nodes in turns."""
    turns = [cpu for turn in zip_longest(*free.values()) for cpu in turn if cpu is not None]
    chosen = set(turns[:count])
    kept = {node: [cpu for cpu in cpus if cpu in chosen] for node, cpus in free.items()}
    return {node: cpus for node, cpus in kept.items() if cpus}


def _counted(asked: re.Match[str], free: _Free, most: int) -> list[Sequence[int]]:
    instances = int(asked["instances"])
    sizes = [int(asked["cores"])] if asked["cores"] else range(most // instances, 0, -1)
    size = next((size for size in sizes if instances * size <= most and instances <= _room(free, size)), None)
    if size is None:
        unit = "hardware threads" if asked["smt"] else "cores"
        there_is = ", ".join(f"{len(cpus)} on node {node}" for node, cpus in free.items())
        quota = f"; the control group's quota allows {most}" if most < len(_joined(free)) else ""
        of = f" of {asked['cores']} {unit}" if asked["cores"] else ""
        raise UserError(
            f"there is no room for {instances} instances{of}: usable {unit} are {there_is}{quota}; "
            "ask for fewer or smaller instances"
        )
    if size > _largest(free):
        together = _joined(free)
        return [together[first : first + size] for first in range(0, instances * size, size)]
    left = {node: list(cpus) for node, cpus in free.items()}
    groups: dict[int, list[Sequence[int]]] = {node: [] for node in free}
    for _ in range(instances):
        emptiest = max(left, key=lambda node: len(left[node]))
        groups[emptiest].append(left[emptiest][:size])
        del left[emptiest][:size]
    return list(chain.from_iterable(groups.values()))


def _room(free: _Free, size: int) -> int:
    """The number of instances of a size that fit; only those larger than every node may span several."""
    if size > _largest(free):
        return len(_joined(free)) // size
    return sum(len(cpus) // size for cpus in free.values())


def _largest(free: _Free) -> int:
    return max(map(len, free.values()))


def _joined(free: _Free) -> list[int]:
    return list(chain.from_iterable(free.values()))


def _placement(cpus: Sequence[int], topology: Topology) -> Placement:
    homes = {core.node for core in topology.cores if not set(core.cpus).isdisjoint(cpus)}
    memory = sorted({number for node in topology.nodes if node.number in homes for number in node.memory})
    return Placement(tuple(sorted(cpus)), tuple(memory) or None, len(cpus))
