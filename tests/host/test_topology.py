"""Topologies read from folders as Linux has them, and what hwloc makes of the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from quantkit.host.cpu import read_cpu
from quantkit.host.topology import Core, Node, Topology, parse_list, read_topology, with_siblings
from tests.host.machines import Machine, machine, written
from tests.requirements import requires


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("", ()), ("0", (0,)), ("0-3", (0, 1, 2, 3)), ("8,0-1\n", (0, 1, 8)), ("1023-1025", (1023, 1024, 1025))],
)
def test_lists(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_list(text) == numbers


def test_two_sockets_with_smt(tmp_path: Path) -> None:
    assert machine(sockets=2, cores=2, smt=2).read(tmp_path) == Topology(
        cores=(
            Core(0, 0, (0, 4), (0, 4)),
            Core(0, 0, (1, 5), (1, 5)),
            Core(1, 1, (2, 6), (2, 6)),
            Core(1, 1, (3, 7), (3, 7)),
        ),
        nodes=(Node(0, (0,)), Node(1, (1,))),
    )


def test_siblings_share_a_core(tmp_path: Path) -> None:
    cores = machine(sockets=2, cores=2, smt=2).read(tmp_path).cores
    assert with_siblings([cores[0].cpus[0], cores[2].cpus[1]], tmp_path / "sys") == tuple(
        sorted((*cores[0].cpus, *cores[2].cpus))
    )
    assert with_siblings([5, 3], tmp_path / "nowhere") == (3, 5)


def test_sub_numa_clusters(tmp_path: Path) -> None:
    topology = machine(sockets=2, nodes=2, cores=3).read(tmp_path)
    assert [(core.socket, core.node) for core in topology.cores] == [
        (socket, node) for socket, node in ((0, 0), (0, 1), (1, 2), (1, 3)) for _ in range(3)
    ]


def test_numbers_that_alternate_between_sockets(tmp_path: Path) -> None:
    alternating = Machine(((0, 0, (0,)), (1, 1, (1,)), (0, 0, (2,)), (1, 1, (3,))), {0: 8, 1: 8})
    topology = alternating.read(tmp_path)
    assert [(core.socket, core.cpus) for core in topology.cores] == [(0, (0,)), (0, (2,)), (1, (1,)), (1, (3,))]


def test_offline_threads_and_cores_are_not_there(tmp_path: Path) -> None:
    halved = replace(machine(cores=3, smt=2), offline=frozenset({1, 4, 5}))
    assert halved.read(tmp_path).cores == (Core(0, 0, (0, 3), (0, 3)), Core(0, 0, (2,), (2,)))


def test_affinity_takes_threads_away_but_leaves_the_machine_as_it_is(tmp_path: Path) -> None:
    cores = machine(sockets=2, cores=2, smt=2).read(tmp_path, affinity={4, 3, 7, 99}).cores
    assert [core.usable for core in cores] == [(4,), (), (), (3, 7)]
    assert [core.cpus for core in cores] == [(0, 4), (1, 5), (2, 6), (3, 7)]


def test_node_numbers_with_gaps(tmp_path: Path) -> None:
    gap = Machine(
        ((0, 0, (0,)), (1, 2, (1,))), {0: 8, 2: 0, 5: 8}, distances={0: (10, 40, 20), 2: (40, 10, 20), 5: (20, 20, 10)}
    )
    topology = gap.read(tmp_path)
    assert [core.node for core in topology.cores] == [0, 2]
    assert topology.nodes == (Node(0, (0,)), Node(2, (5,)), Node(5, (5,)))


def test_a_node_without_memory_uses_the_nearest_that_has_some(tmp_path: Path) -> None:
    bare = replace(
        machine(sockets=3, cores=1),
        memory={0: 8, 1: 0, 2: 8},
        distances={0: (10, 21, 16), 1: (21, 10, 16), 2: (16, 16, 10)},
    )
    assert [node.memory for node in bare.read(tmp_path).nodes] == [(0,), (2,), (2,)]


def test_distances_that_are_not_told(tmp_path: Path) -> None:
    bare = replace(machine(sockets=3, cores=1), memory={0: 8, 1: 0, 2: 8})
    bare.write(tmp_path)
    for file in tmp_path.rglob("distance"):
        file.unlink()
    topology = read_topology(tmp_path / "sys", tmp_path / "proc", tmp_path, {0, 1, 2})
    assert [node.memory for node in topology.nodes] == [(0,), (0, 2), (2,)]


def test_a_core_that_no_node_claims_goes_to_the_first(tmp_path: Path) -> None:
    topology = Machine(((0, 1, (0,)), (0, None, (1,))), {1: 8, 2: 8}).read(tmp_path)
    assert [core.node for core in topology.cores] == [1, 1]


def test_equally_near_nodes_serve_alike(tmp_path: Path) -> None:
    bare = replace(machine(sockets=3, cores=1), memory={0: 8, 1: 0, 2: 8})
    assert [node.memory for node in bare.read(tmp_path).nodes] == [(0,), (0, 2), (2,)]


def test_memory_without_cores_is_left_to_those_that_have_no_other(tmp_path: Path) -> None:
    high_bandwidth = Machine(((0, 0, (0, 1)),), {0: 8, 1: 16}, distances={0: (10, 31), 1: (31, 10)})
    assert high_bandwidth.read(tmp_path / "all").nodes[0] == Node(0, (0,))
    assert replace(high_bandwidth, mems_allowed="1").read(tmp_path / "one").nodes[0] == Node(0, (1,))


def test_memory_that_the_process_may_not_use(tmp_path: Path) -> None:
    topology = replace(machine(sockets=2, cores=1), mems_allowed="1").read(tmp_path)
    assert [node.memory for node in topology.nodes] == [(1,), (1,)]


@pytest.mark.parametrize(
    "files",
    [
        {"cpu.max": "150000 100000"},
        {"cpu/cpu.cfs_quota_us": "150000", "cpu/cpu.cfs_period_us": "100000"},
    ],
)
def test_quota_of_both_versions(tmp_path: Path, files: dict[str, str]) -> None:
    assert replace(machine(), cgroup=files).read(tmp_path).quota == 1.5


def test_names_of_older_kernels(tmp_path: Path) -> None:
    machine(cores=1, smt=2).write(tmp_path)
    for file in tmp_path.rglob("core_cpus*"):
        file.rename(file.with_name(file.name.replace("core_cpus", "thread_siblings")))
    topology = read_topology(tmp_path / "sys", tmp_path / "proc", tmp_path, {0, 1})
    assert topology.cores == (Core(0, 0, (0, 1), (0, 1)),)


def test_a_kernel_without_nodes(tmp_path: Path) -> None:
    topology = Machine(((0, None, (0,)), (0, None, (1,))), {}).read(tmp_path)
    assert topology.nodes == (Node(0, ()),)
    assert [core.node for core in topology.cores] == [0, 0]


def test_a_virtual_machine_that_hides_its_cores(tmp_path: Path) -> None:
    machine(cores=1, smt=2).write(tmp_path)
    shutil.rmtree(tmp_path / "sys/devices/system/cpu/cpu0/topology")
    shutil.rmtree(tmp_path / "sys/devices/system/cpu/cpu1/topology")
    topology = read_topology(tmp_path / "sys", tmp_path / "proc", tmp_path, {0, 1})
    assert topology.cores == (Core(0, 0, (0,), (0,)), Core(0, 0, (1,), (1,)))


def test_no_sysfs_at_all(tmp_path: Path) -> None:
    topology = read_topology(tmp_path, tmp_path, tmp_path, {3, 5})
    assert topology == Topology((Core(0, 0, (3,), (3,)), Core(0, 0, (5,), (5,))), (Node(0, ()),))


def test_this_machine() -> None:
    topology, cpu = read_topology(), read_cpu()
    assert {usable for core in topology.cores for usable in core.usable} == set(cpu.usable)
    assert len(topology.cores) == cpu.physical
    assert sum(1 for core in topology.cores if core.usable) == cpu.usable_cores


def hwloc(*arguments: str) -> Machine:
    """The machine that hwloc sees."""
    requires("hwloc")
    command = ["lstopo-no-graphics", "--disallowed", *arguments, "--of", "xml"]
    root = ET.fromstring(subprocess.run(command, capture_output=True, check=True).stdout)
    nodes = {
        int(node.attrib["os_index"]): (_bits(node), int(node.get("local_memory", 0)) >> 30)
        for node in root.iter("object")
        if node.get("type") == "NUMANode"
    }
    cores = []
    for package in root.iter("object"):
        if package.get("type") == "Package":
            for core in package.iter("object"):
                if core.get("type") == "Core":
                    home = min((n for n in nodes if _bits(core) <= nodes[n][0]), key=lambda n: len(nodes[n][0]))
                    cores.append((int(package.attrib["os_index"]), home, tuple(sorted(_bits(core)))))
    return Machine(tuple(cores), {node: memory for node, (_, memory) in sorted(nodes.items())})


def _bits(element: ET.Element) -> frozenset[int]:
    """The hardware threads in a mask such as ``0xf,0x00000000``."""
    words = element.attrib["cpuset"].split(",")
    mask = sum(int(word or "0", 16) << 32 * place for place, word in enumerate(reversed(words)))
    return frozenset(bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def _seen(topology: Topology) -> set[tuple[int, int, tuple[int, ...]]]:
    return {(core.socket, core.node, core.cpus) for core in topology.cores}


@pytest.mark.parametrize(
    "synthetic",
    [
        "pack:1 [numa] core:2 pu:1",
        "pack:2 [numa] core:4 pu:2",
        "pack:4 [numa] core:2 pu:2(indexes=core:pu)",
        "pack:2 numa:2 core:3 pu:2",
        "pack:2 [numa] core:4 pu:1(indexes=0,2,4,6,1,3,5,7)",
        "pack:8 [numa] core:80 pu:2",
    ],
)
def test_hwloc_agrees(tmp_path: Path, synthetic: str) -> None:
    described = hwloc("-i", synthetic)
    topology = described.read(tmp_path)
    assert _seen(topology) == set(described.cores)
    assert [node.number for node in topology.nodes] == list(described.memory)
    # hwloc reads the folders, too, and not merely the description that they were made from.
    assert set(hwloc("-i", str(tmp_path), "--if", "fsroot").cores) == _seen(topology)


@pytest.mark.parametrize(
    "odd",
    [
        replace(machine(sockets=2, cores=3, smt=2), offline=frozenset({1, 6, 10, 5})),
        replace(machine(sockets=2, cores=2), memory={0: 8, 1: 0}),
        Machine(((0, 0, (0, 2)), (1, 2, (1, 3))), {0: 8, 2: 8}),
    ],
    ids=["offline", "no-memory", "gap"],
)
def test_hwloc_agrees_on_odd_machines(tmp_path: Path, odd: Machine) -> None:
    topology = odd.read(tmp_path)
    seen = hwloc("-i", str(tmp_path), "--if", "fsroot")
    assert set(seen.cores) == _seen(topology)
    assert [node.number for node in topology.nodes] == list(seen.memory)
    assert {node.number for node in topology.nodes if node.memory == (node.number,)} == {
        node for node, memory in seen.memory.items() if memory
    }


def test_hwloc_agrees_on_this_machine() -> None:
    assert set(hwloc().cores) == _seen(read_topology())


def test_the_fixtures_write_lists_as_linux_does() -> None:
    assert written({0, 1, 2, 8}) == "0-2,8"
    assert parse_list(written(os.sched_getaffinity(0))) == tuple(sorted(os.sched_getaffinity(0)))
