"""Policies on machines of many shapes."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantkit.benchmark.placement.placement import Placement, is_policy, place
from quantkit.errors import UserError
from quantkit.host.cpu import read_cpu
from quantkit.host.limits import Limits, read_limits
from quantkit.host.threads import recommended_threads
from quantkit.host.topology import Core, Node, Topology, read_topology
from tests.host.machines import Machine, machine


def _layout(sizes: Collection[int], smt: int = 1, quota: Optional[float] = None) -> Topology:
    """One socket with one node for each size."""
    total = sum(sizes)
    homes = [node for node, size in enumerate(sizes) for _ in range(size)]
    threads = [tuple(core + total * thread for thread in range(smt)) for core in range(total)]
    cores = tuple(Core(node, node, cpus, cpus) for node, cpus in zip(homes, threads))
    return Topology(cores, tuple(Node(node, (node,)) for node in range(len(sizes))), quota)


def _cpus(placements: Collection[Placement]) -> list[tuple[int, ...]]:
    return [each.cpus or () for each in placements]


# Two sockets of four cores; the second hardware threads are 8 to 15.
TWO = _layout([4, 4], smt=2)


@pytest.mark.parametrize(
    ("policy", "cpus"),
    [
        ("node", [(0, 1, 2, 3), (4, 5, 6, 7)]),
        ("latency", [(0, 1, 2, 3)]),
        ("machine", [(0, 1, 2, 3, 4, 5, 6, 7)]),
        ("core", [(0,), (1,), (2,), (3,), (4,), (5,), (6,), (7,)]),
        ("1x1", [(0,)]),
        ("2x1", [(0,), (4,)]),
        ("3x1", [(0,), (1,), (4,)]),
        ("4x2", [(0, 1), (2, 3), (4, 5), (6, 7)]),
        ("2x3", [(0, 1, 2), (4, 5, 6)]),
        ("1x6", [(0, 1, 2, 3, 4, 5)]),
        ("1", [(0, 1, 2, 3, 4, 5, 6, 7)]),
        ("2", [(0, 1, 2, 3), (4, 5, 6, 7)]),
        ("3", [(0, 1), (2, 3), (4, 5)]),
        ("node:smt", [(0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)]),
        ("2x2:smt", [(0, 8), (4, 12)]),
        ("4x3:smt", [(0, 1, 8), (2, 9, 10), (4, 5, 12), (6, 13, 14)]),
    ],
)
def test_policies_on_two_sockets(policy: str, cpus: list[tuple[int, ...]]) -> None:
    placements = place(policy, TWO)
    assert _cpus(placements) == cpus
    assert [each.threads for each in placements] == [len(each) for each in cpus]


def test_memory_is_that_of_the_cores() -> None:
    assert [each.nodes for each in place("node", TWO)] == [(0,), (1,)]
    assert [each.nodes for each in place("machine", TWO)] == [(0, 1)]
    assert [each.nodes for each in place("1x6", TWO)] == [(0, 1)]


def test_memory_is_free_where_nothing_is_known_of_nodes() -> None:
    topology = replace(TWO, nodes=(Node(0, ()),))
    assert {each.nodes for each in place("core", topology)} == {None}


def test_a_node_without_memory_takes_the_nearest(tmp_path: Path) -> None:
    topology = replace(machine(sockets=2, cores=2), memory={0: 8, 1: 0}).read(tmp_path)
    assert [each.nodes for each in place("node", topology)] == [(0,), (0,)]


def test_nodes_without_cores_have_no_instance(tmp_path: Path) -> None:
    topology = Machine(((0, 0, (0,)), (1, 2, (1,))), {0: 8, 1: 16, 2: 8}).read(tmp_path)
    assert place("node", topology) == (Placement((0,), (0,), 1), Placement((1,), (2,), 1))


def test_a_container_has_only_its_own(tmp_path: Path) -> None:
    topology = machine(sockets=2, cores=4, smt=2).read(tmp_path, affinity={1, 9, 10, 5, 6, 7})
    assert _cpus(place("node", topology)) == [(1, 10), (5, 6, 7)]
    assert _cpus(place("latency", topology)) == [(5, 6, 7)]
    assert _cpus(place("core:smt", topology)) == [(1,), (9,), (10,), (5,), (6,), (7,)]


@pytest.mark.parametrize(
    ("quota", "policy", "cpus"),
    [
        (5.5, "node", [(0, 1, 2), (4, 5)]),
        (1.0, "node", [(0,)]),
        (0.5, "node", [(0,)]),
        (3.0, "core", [(0,), (1,), (4,)]),
        (3.0, "latency", [(0, 1, 2)]),
        (3.0, "machine", [(0, 1, 4)]),
        (3.0, "3x1", [(0,), (1,), (4,)]),
        (5.0, "2", [(0, 1), (4, 5)]),
        (99.0, "2x4", [(0, 1, 2, 3), (4, 5, 6, 7)]),
    ],
)
def test_a_quota_leaves_fewer_cores(quota: float, policy: str, cpus: list[tuple[int, ...]]) -> None:
    assert _cpus(place(policy, replace(TWO, quota=quota))) == cpus


CORES, THREADS = "usable cores are 4 on node 0, 4 on node 1", "usable hardware threads are 8 on node 0, 8 on node 1"


@pytest.mark.parametrize(
    ("policy", "quota", "words"),
    [
        ("9x1", None, f"9 instances of 1 cores: {CORES}"),
        ("2x5", None, f"2 instances of 5 cores: {CORES}"),
        ("9", None, f"9 instances: {CORES}"),
        ("9", 8.0, f"9 instances: {CORES}"),
        ("17x1:smt", None, f"17 instances of 1 hardware threads: {THREADS}"),
        ("2x2", 3.9, f"2 instances of 2 cores: {CORES}; the control group's quota allows 3"),
    ],
)
def test_more_than_there_is(policy: str, quota: Optional[float], words: str) -> None:
    with pytest.raises(UserError, match="there is no room") as caught:
        place(policy, replace(TWO, quota=quota))
    assert str(caught.value) == f"there is no room for {words}; ask for fewer or smaller instances"


def test_no_instance_is_pieced_together_from_what_two_nodes_have_left() -> None:
    with pytest.raises(UserError, match="3 instances of 4 cores: usable cores are 6 on node 0, 6 on node 1"):
        place("3x4", _layout([6, 6]))
    with pytest.raises(UserError, match="2 instances of 6 cores"):
        place("2x6", _layout([5, 5, 6]))


def test_an_instance_as_large_as_the_largest_node_lies_there() -> None:
    assert _cpus(place("1x6", _layout([4, 6]))) == [(4, 5, 6, 7, 8, 9)]


@pytest.mark.parametrize(
    "policy", ["", "numa", "0x1", "2x0", "2x", "x2", "2x2x2", "-1", "node:", "node:smt:smt", "2 x 2"]
)
def test_unknown_policies(policy: str) -> None:
    with pytest.raises(
        UserError, match=f"no placement '{policy}'; there are node, core, latency, machine, unpinned, N"
    ):
        place(policy, TWO)
    assert not is_policy(policy)


@pytest.mark.parametrize("policy", ["node", "core:smt", "12", "100x4", "2x2:smt"])
def test_policies_are_known_whatever_the_machine_offers(policy: str) -> None:
    assert is_policy(policy)


def test_nothing_to_run_on() -> None:
    unusable = Topology(tuple(replace(core, usable=()) for core in TWO.cores), TWO.nodes)
    with pytest.raises(
        UserError,
        match=r"^this process may use none of the machine's cores; widen its affinity \(taskset\) or its cpuset",
    ):
        place("node", unusable)


def test_unpinned_has_the_recommended_threads() -> None:
    assert place("unpinned", TWO) == (Placement(None, None, 8),)
    (placement,) = place("unpinned", read_topology())
    assert placement.threads == recommended_threads(read_cpu(), read_limits())
    limited = replace(read_topology(), quota=0.5)
    assert place("unpinned", limited)[0].threads == recommended_threads(read_cpu(), Limits(cpu_quota=0.5))


def test_this_machine() -> None:
    for policy in ("node", "core", "latency", "machine", "1x1"):
        for placement in place(policy, read_topology()):
            assert set(placement.cpus or ()) <= os.sched_getaffinity(0)


SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@given(SIZES, st.integers(1, 3), st.integers(1, 12), st.integers(1, 12), st.booleans())
def test_any_number_of_instances_of_any_size(sizes: list[int], smt: int, count: int, size: int, siblings: bool) -> None:
    topology = _layout(sizes, smt)
    units = [width * smt for width in sizes] if siblings else sizes
    room = sum(units) // size if size > max(units) else sum(unit // size for unit in units)
    policy = f"{count}x{size}" + (":smt" if siblings else "")
    if count > room:
        with pytest.raises(UserError):
            place(policy, topology)
        return
    instances = _cpus(place(policy, topology))
    assert [len(cpus) for cpus in instances] == [size] * count
    everything = [cpu for cpus in instances for cpu in cpus]
    assert len(set(everything)) == len(everything)
    assert set(everything) <= {cpu for core in topology.cores for cpu in core.usable}
    if not siblings:
        assert all(len(set(core.cpus) & set(everything)) <= 1 for core in topology.cores)
    home = {cpu: core.node for core in topology.cores for cpu in core.cpus}
    nodes = [len({home[cpu] for cpu in cpus}) for cpus in instances]
    if size <= max(units):
        assert set(nodes) == {1}
        counts = [sum(home[cpus[0]] == node for cpus in instances) for node in range(len(sizes))]
        # Spread: nowhere is an instance that another node had more room for.
        assert all(
            units[one] - (counts[one] - 1) * size >= units[other] - counts[other] * size
            for one in range(len(sizes))
            for other in range(len(sizes))
            if counts[one]
        )


@given(SIZES, st.integers(1, 12), st.integers(1, 40))
def test_instances_without_a_size_are_as_large_as_they_can_be(sizes: list[int], count: int, quota: int) -> None:
    topology = _layout(sizes, quota=float(quota))

    def fits(size: int) -> bool:
        try:
            return len(place(f"{count}x{size}", topology)) == count
        except UserError:
            return False

    largest = max((size for size in range(1, sum(sizes) + 1) if fits(size)), default=None)
    if largest is None:
        with pytest.raises(UserError):
            place(f"{count}", topology)
    else:
        assert place(f"{count}", topology) == place(f"{count}x{largest}", topology)


@given(SIZES, st.integers(1, 40))
def test_policies_without_a_number_use_what_the_quota_allows(sizes: list[int], quota: int) -> None:
    topology = _layout(sizes, quota=float(quota))
    most = min(quota, sum(sizes))
    for policy in ("node", "core", "machine"):
        used = [len(cpus) for cpus in _cpus(place(policy, topology))]
        assert sum(used) == most
    shares = [len(cpus) for cpus in _cpus(place("node", topology))]
    shares += [0] * (len(sizes) - len(shares))
    # Only a node that has no more takes less than another, by more than the one of the last turn.
    assert all(share >= max(shares) - 1 or share == size for share, size in zip(shares, sizes))
