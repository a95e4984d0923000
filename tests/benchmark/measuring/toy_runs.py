"""Runs of toy suites, whose contestants are worker processes that compute nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Optional

from quantkit.benchmark.measuring.runner import run_suite
from quantkit.benchmark.measuring.team import Launch
from quantkit.benchmark.results.results import Cell, Results
from quantkit.benchmark.suites.suite import Suite
from tests.benchmark.fakes import FakeWorkload, launch, run_of


def bench(
    toy: Suite,
    folder: Path,
    variants: Mapping[str, Mapping[str, Any]],
    launches: Optional[Mapping[str, tuple[Launch, ...]]] = None,
    budget: Optional[float] = None,
    told: Optional[list[str]] = None,
    others: Mapping[str, Mapping[str, Mapping[str, Any]]] = MappingProxyType({}),
    minutes: float = 0.0,
    obstacles: Mapping[str, str] = MappingProxyType({}),
) -> Results:
    """Run a suite; networks named in ``others`` have variants of their own."""
    folder.mkdir(exist_ok=True)
    workloads = {
        each.name: FakeWorkload(folder, others.get(each.name, variants), each.name, obstacles=obstacles)
        for each in toy.networks
    }
    launches = launches or {each.name: (launch(0), launch(1)) for each in toy.contestants}
    tell = [].append if told is None else told.append
    run = replace(run_of(toy, budget), minutes=minutes)
    return run_suite(toy, run, workloads, launches, folder / "out", tell)


def by_name(results: Results) -> dict[tuple[str, int], Cell]:
    return {(cell.contestant.name, cell.batch): cell for cell in results.cells}


def children() -> set[int]:
    """The processes that this one has started and that still run."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {int(pid) for pid in listed}
