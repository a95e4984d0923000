"""Networks and instances without an engine."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import numpy as np

from quantkit.benchmark.measuring.team import Launch
from quantkit.benchmark.placement.placement import Placement
from quantkit.benchmark.results.results import Contestant, Network, Run
from quantkit.benchmark.suites.suite import Subject, Suite
from quantkit.benchmark.workloads.network import Checkpoint

FAKE = Path(__file__).with_name("fake_worker.py")


@dataclass(frozen=True)
class FakeWorkload:
    """A network that sleeps; ``variants`` maps each variant to what ``fake_worker`` does, ``value`` is the input."""

    folder: Path
    variants: Mapping[str, Mapping[str, Any]]
    name: str = "net"
    weights: str = "random"
    macs: int = 1_000_000
    item: str = "image"
    input_name: str = "data"
    accuracy: Mapping[str, float] = field(default_factory=dict)
    value: float = 1.0
    obstacles: Mapping[str, str] = field(default_factory=dict)

    def checkpoint(self, variant: str) -> Checkpoint:
        symbol = self.folder / f"{self.name}-{variant}.json"
        symbol.write_text(json.dumps({"seconds": 0.01, "value": 1.0, **self.variants[variant]}))
        return Checkpoint({"symbol": symbol}, {"symbol": variant, "params": variant})

    def inputs(self, batch: int) -> Path:
        path = self.folder / f"inputs-{batch}.npy"
        np.save(path, np.full(batch, self.value, np.float32))
        return path

    def reference(self, variant: str, batch: int) -> Optional[Path]:
        if variant != "int8":
            return None
        path = self.folder / "reference.npz"
        np.savez(path, np.ones(4, np.float32))
        return path


ANYWHERE = Placement(None, None, 1)


def launch(number: int, placement: Placement = ANYWHERE) -> Launch:
    """An instance of the fake worker."""
    return Launch((sys.executable,), {**os.environ, "INSTANCE": str(number)}, placement, worker=FAKE)


def suite(variants: tuple[str, ...] = ("fp32",), batches: tuple[int, ...] = (1,), networks: int = 1) -> Suite:
    """A suite with a contestant for each variant, called like it."""
    contestants = tuple(Contestant(variant, "build", variant, "unpinned") for variant in variants)
    names = ["net", *(f"net{number}" for number in range(1, networks))]
    subjects = tuple(Subject(name, model=name) for name in names[:networks])
    return Suite("toy", "A toy", "throughput", batches, variants[0], subjects, contestants)


def run_of(toy: Suite, budget: Optional[float] = None) -> Run:
    """The description of a run of that suite."""
    return Run(
        name=toy.name,
        title=toy.title,
        scenario=toy.scenario,
        quantkit="0",
        command="",
        created="",
        host={"id": "here"},
        builds=(),
        networks=tuple(Network(each.name, "random", 1) for each in toy.networks),
        batches=toy.batches,
        contestants=toy.contestants,
        baseline=toy.baseline,
        seed=0,
        budget=budget,
    )
