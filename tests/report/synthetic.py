"""Benchmark results drawn from known distributions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

import numpy as np

from quantkit.benchmark.build import Build
from quantkit.benchmark.placement.placement import Placement
from quantkit.benchmark.results.results import (
    Agreement,
    Cell,
    Contestant,
    Failure,
    Network,
    Results,
    Round,
    Run,
    Server,
    ServerTrial,
    Ticks,
    WarmUp,
)

HOST: dict[str, Any] = {
    "id": "0123456789abcdef",
    "cpu": "AMD EPYC 9R14",
    "isa": ["avx2", "avx512", "avx512_vnni"],
    "sockets": 1,
    "nodes": 2,
    "cores": 8,
    "threads": 16,
    "memory_gib": 64,
    "virtual": True,
    "usable_cores": 8,
    "cpu_quota": None,
    "governor": None,
    "turbo": None,
    "kernel": "6.1.0",
}
BUILDS = (
    Build("native", "/q/native/bin/python", "3.11.9", "1.26.4", "1.5.0", "/q/native/libmxnet.so", ("OPENMP",), False),
    Build("onednn", "/q/onednn/bin/python", "3.11.9", "1.26.4", "1.9.1", "/q/onednn/libmxnet.so", ("MKLDNN",), True),
)
NATIVE = Contestant("native", "native", "fp32", "machine")
MKLDNN = Contestant("MKL-DNN", "onednn", "fp32", "machine")
FUSED = Contestant("fused", "onednn", "fused", "machine")
INT8 = Contestant("INT8", "onednn", "int8", "machine")
PINNED = Contestant("INT8 pinned", "onednn", "int8", "node")
CONTESTANTS = (NATIVE, MKLDNN, FUSED, INT8, PINNED)
SPEED = {"native": 1.0, "MKL-DNN": 5.0, "fused": 7.0, "INT8": 20.0, "INT8 pinned": 12.0}


def ticks(random: np.random.Generator, mean_ms: float, requests: int, spread: float = 0.05) -> Ticks:
    """One instance in a closed loop with log-normal durations and small gaps."""
    durations = mean_ms * np.exp(random.normal(0, spread, requests)) * 1e6
    gaps = random.uniform(0, 2e4, requests)
    ends = np.cumsum(durations + gaps)
    starts = ends - durations
    return Ticks(tuple(int(value) for value in starts), tuple(int(value) for value in ends))


def rounds(
    random: np.random.Generator,
    mean_ms: float,
    instances: int = 1,
    count: int = 6,
    requests: int = 12,
    stolen: float = 0.0,
) -> tuple[Round, ...]:
    """Rounds, each in a mood of its own."""
    found = []
    for number in range(count):
        mood = np.exp(random.normal(0, 0.02))
        all_ticks = tuple(ticks(random, mean_ms * mood, requests) for _ in range(instances))
        found.append(Round(1.7e9 + number, 0.01, stolen, all_ticks))
    return tuple(found)


def cell(network: str, batch: int, contestant: Contestant, turns: tuple[Round, ...], **fields: Any) -> Cell:
    """A cell with what the runner would have noted."""
    instances = len(turns[0].instances) if turns else 1
    cores = 8 // instances
    given: dict[str, Any] = {
        "scenario": "throughput",
        "placements": tuple(
            Placement(tuple(range(place * cores, (place + 1) * cores)), (place % 2,), cores)
            for place in range(instances)
        ),
        "environment": {"OMP_NUM_THREADS": str(cores), "OMP_PROC_BIND": "close", "OMP_PLACES": "cores"},
        "checkpoint": {"symbol": "a" * 64, "params": "b" * 64},
        "engine": {"mxnet": "1.9.1", "libraries": ["libgomp.so.1"]},
        "warm_up": (WarmUp((9, 8, 8, 8, 8, 8), True),) * instances,
        "agreement": Agreement("native", 2e-6, 1e-3),
        **fields,
    }
    return Cell(network=network, batch=batch, contestant=contestant, rounds=turns, **given)


def failed(network: str, batch: int, contestant: Contestant, message: str, stderr: Sequence[str] = ()) -> Cell:
    """A cell whose second instance was killed."""
    return cell(network, batch, contestant, (), failure=Failure("killed", 1, message, tuple(stderr)), agreement=None)


def run(
    networks: Sequence[Network], contestants: Sequence[Contestant], batches: Iterable[int] = (1,), **fields: Any
) -> Run:
    """A finished run."""
    given: dict[str, Any] = {
        "name": "demo",
        "title": "Demonstration",
        "scenario": "throughput",
        "quantkit": "0.1.0",
        "command": "quantkit benchmark demo",
        "created": "2024-05-01T12:00:00+00:00",
        "host": HOST,
        "builds": BUILDS,
        "baseline": contestants[0].name,
        "seed": 0,
        "state": "finished",
        "minutes": 12.5,
        **fields,
    }
    return Run(networks=tuple(networks), contestants=tuple(contestants), batches=tuple(batches), **given)


def results(
    networks: Sequence[str] = ("resnet50_v1",),
    batches: Sequence[int] = (1, 16),
    contestants: Sequence[Contestant] = CONTESTANTS,
    speed: Optional[Mapping[str, float]] = None,
    instances: Optional[Mapping[str, int]] = None,
    scenario: str = "throughput",
    seed: int = 0,
    requests: int = 12,
    **fields: Any,
) -> Results:
    """Measured cells of all combinations.

    ``speed`` gives each contestant's speed relative to 100 ms for an image; ``INT8 pinned`` has two instances.
    """
    random = np.random.default_rng(seed)
    speed, instances = speed or SPEED, instances or {"INT8 pinned": 2}
    cells = []
    for place, network in enumerate(networks):
        for batch in batches:
            for each in contestants:
                factor = speed[each.name] * (1 + 0.1 * place) if each is not contestants[0] else 1.0
                mean_ms = 100.0 * batch / factor
                turns = rounds(random, mean_ms, instances.get(each.name, 1), requests=requests)
                cells.append(cell(network, batch, each, turns, scenario=scenario))
    known = [Network(name, "trained", 4_000_000_000) for name in networks]
    given: dict[str, Any] = {"networks": known, "contestants": contestants, "batches": batches, **fields}
    return Results(run(scenario=scenario, **given), tuple(cells))


# As LoadGen writes them.
REASONS = (
    "Performance constraints satisfied : NO",
    "Early stopping satisfied: NO",
    "Recommendations:",
    "* Reduce target QPS to improve latency.",
)


def served(network: str, contestant: Contestant, rate: float, bound: float = 15.0) -> Cell:
    """A cell of the server scenario: latency rises towards the rate at which the bound breaks."""
    trials = tuple(
        ServerTrial(share * rate, 500, 4.0, 6.0, 6.0 / (1.6 - share), share < 1.2, () if share < 1.2 else REASONS)
        for share in (0.5, 0.9, 1.0, 1.2, 1.4)
    )
    return cell(network, 1, contestant, (), scenario="server", server=Server(bound, rate, trials))
