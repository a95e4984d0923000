"""What runs in the guest: places instances on its two nodes, well and wrongly, and tells what the proof says.

The results are one JSON object, on a line that begins with ``RESULTS``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from quantkit.benchmark.build import Build
from quantkit.benchmark.measuring.binding import launch
from quantkit.benchmark.measuring.team import Launch
from quantkit.benchmark.placement.placement import Placement, place
from quantkit.benchmark.placement.proof import problem, prove
from quantkit.benchmark.workers.instance import Instance
from quantkit.host.topology import read_topology

OPENMP = Path(__file__).parents[1] / "benchmark" / "openmp_worker.py"
CPUS = Path("/sys/devices/system/cpu")
CGROUP = Path("/sys/fs/cgroup")


def main() -> None:
    topology = read_topology()
    nodes = place("node", topology)
    first, second = nodes
    crossed = replace(first, nodes=second.nodes)
    unbound = replace(second, nodes=None)
    results = {
        "topology": asdict(topology),
        "node": judged(nodes),
        "node, by itself": judged(nodes, by_itself=True),
        "2x1": judged(place("2x1", topology)),
        "2x1, by itself": judged(place("2x1", topology), by_itself=True),
        "machine": judged(place("machine", topology)),
        "other cores": judged([first], instead=[second]),
        "other memory": judged([first], instead=[crossed]),
        "other memory, by itself": judged([first], instead=[crossed], by_itself=True),
        "memory not bound": judged([second], instead=[unbound], by_itself=True),
        "offline": offline(),
        "container": container(),
    }
    print("RESULTS", json.dumps(results), flush=True)


def judged(
    asked: Sequence[Placement], instead: Sequence[Placement] = (), by_itself: bool = False
) -> list[dict[str, Any]]:
    """Start instances, all at once, where they were asked for or ``instead``, and judge them by what was asked for."""
    launches = [_launch(placement, by_itself) for placement in instead or asked]
    found = []
    with ExitStack() as stack:
        instances = [
            stack.enter_context(Instance(each.command, each.environment, each.cpus, each.nodes, OPENMP))
            for each in launches
        ]
        for instance in instances:
            instance.tell("touch", mebibytes=64)
        for instance, launched, placement in zip(instances, launches, asked):
            instance.answer("touch", 120)
            proof = prove(instance.pid, placement)
            found.append(
                {
                    "command": launched.command,
                    "placement": asdict(placement),
                    "proof": asdict(proof),
                    "problem": problem(proof, placement),
                }
            )
    return found


def _launch(placement: Placement, by_itself: bool) -> Launch:
    build = Build("guest", sys.executable, "", "", "", "", (), False)
    launched = launch(build, "fp32", placement)
    if by_itself:
        return replace(launched, command=(sys.executable,), cpus=placement.cpus, nodes=placement.nodes)
    return launched


def offline() -> list[dict[str, Any]]:
    """The nodes' placements while one hardware thread is offline."""
    (CPUS / "cpu3/online").write_text("0")
    placements = [asdict(placement) for placement in place("node", read_topology())]
    (CPUS / "cpu3/online").write_text("1")
    return placements


def container() -> dict[str, Any]:
    """What there is in a control group with half of the machine and one and a half cores' worth of time."""
    (CGROUP / "cgroup.subtree_control").write_text("+cpu +cpuset")
    group = CGROUP / "container"
    group.mkdir()
    (group / "cpu.max").write_text("150000 100000")
    (group / "cpuset.cpus").write_text("0,2-3")
    (group / "cpuset.mems").write_text("1")
    (group / "cgroup.procs").write_text(str(os.getpid()))
    topology = read_topology()
    return {
        "quota": topology.quota,
        "usable": [cpu for core in topology.cores for cpu in core.usable],
        "memory": [node.memory for node in topology.nodes],
        "1x1": judged(place("1x1", topology)),
    }


main()
