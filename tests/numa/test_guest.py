"""Placement on two real NUMA nodes: those of a guest under QEMU (``make test-numa``)."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Optional

import pytest

from tests.numa.image import write_image

KERNEL = os.environ.get("QUANTKIT_NUMA_KERNEL")

pytestmark = pytest.mark.requires("kernel")

# Two sockets of two cores, each with memory of its own.
MACHINE = [
    *("-accel", "tcg", "-cpu", "max", "-m", "1G", "-smp", "4,sockets=2,cores=2,threads=1"),
    *("-object", "memory-backend-ram,size=512M,id=m0", "-object", "memory-backend-ram,size=512M,id=m1"),
    *("-numa", "node,nodeid=0,memdev=m0", "-numa", "node,nodeid=1,memdev=m1"),
    *("-numa", "cpu,node-id=0,socket-id=0", "-numa", "cpu,node-id=1,socket-id=1"),
    *("-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"),
]

Judged = list[dict[str, Any]]


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """What the guest has found."""
    with tempfile.TemporaryDirectory(prefix="quantkit-") as scratch:
        image = Path(scratch, "image")
        write_image(Path(__file__).with_name("guest.py"), image, Path(scratch))
        boot = ["-kernel", str(KERNEL), "-initrd", str(image), "-append", "console=ttyS0 quiet panic=-1"]
        command = ["qemu-system-x86_64", *MACHINE, *boot]
        console = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    lines = [line for line in console.stdout.splitlines() if line.startswith("RESULTS ")]
    assert lines, console.stdout[-4000:] + console.stderr[-1000:]
    found: dict[str, Any] = json.loads(lines[0].partition(" ")[2])
    return found


def _placements(judged: Judged) -> list[tuple[list[int], Optional[list[int]]]]:
    return [(each["placement"]["cpus"], each["placement"]["nodes"]) for each in judged]


def test_the_topology(results: dict[str, Any]) -> None:
    cores = results["topology"]["cores"]
    assert [(core["socket"], core["node"], core["usable"]) for core in cores] == [
        (0, 0, [0]),
        (0, 0, [1]),
        (1, 1, [2]),
        (1, 1, [3]),
    ]
    assert results["topology"]["nodes"] == [{"number": 0, "memory": [0]}, {"number": 1, "memory": [1]}]
    assert results["topology"]["quota"] is None


@pytest.mark.parametrize("suffix", ["", ", by itself"])
@pytest.mark.parametrize(
    ("policy", "placements"),
    [("node", [([0, 1], [0]), ([2, 3], [1])]), ("2x1", [([0], [0]), ([2], [1])])],
)
def test_instances_are_where_they_were_asked_for(
    results: dict[str, Any], policy: str, placements: list[tuple[list[int], list[int]]], suffix: str
) -> None:
    judged = results[policy + suffix]
    assert _placements(judged) == placements
    for each, (cpus, (node,)) in zip(judged, placements):
        assert ("numactl" in each["command"][0]) == (not suffix)
        assert each["problem"] is None
        assert each["proof"]["cpus"] == cpus
        assert each["proof"]["bound"] == len(cpus)
        # What the interpreter touches before it binds itself may lie elsewhere.
        others = [pages for number, pages in each["proof"]["pages"].items() if number != str(node)]
        assert each["proof"]["pages"][str(node)] >= 64 << 8
        assert sum(others) < (16 << 8 if suffix else 1)


def test_an_instance_on_both_nodes(results: dict[str, Any]) -> None:
    (machine,) = results["machine"]
    assert machine["problem"] is None and machine["proof"]["bound"] == 4


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("other cores", "may run on hardware threads 2,3, beyond 0,1"),
        ("other memory", "of its memory lies on nodes 1, not on 0"),
        ("other memory, by itself", "of its memory lies on nodes 1, not on 0"),
    ],
)
def test_wrong_places_are_noticed(results: dict[str, Any], case: str, words: str) -> None:
    assert words in results[case][0]["problem"]


def test_memory_that_nobody_binds_lies_where_it_is_used(results: dict[str, Any]) -> None:
    (judged,) = results["memory not bound"]
    assert judged["problem"] is None and judged["proof"]["pages"]["1"] >= 64 << 8


def test_a_hardware_thread_that_goes_offline(results: dict[str, Any]) -> None:
    assert [each["cpus"] for each in results["offline"]] == [[0, 1], [2]]


def test_a_control_group(results: dict[str, Any]) -> None:
    container = results["container"]
    assert container["quota"] == 1.5
    assert container["usable"] == [0, 2, 3]
    assert container["memory"] == [[1], [1]]
    assert _placements(container["1x1"]) == [([2], [1])] and container["1x1"][0]["problem"] is None
