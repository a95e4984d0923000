"""Cells made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quantkit.benchmark.placement.placement import Placement
from quantkit.benchmark.results.results import Cell, Contestant, Round, Ticks

MS = 1_000_000


def closed_loop(durations_ms: Sequence[float], start_ms: float = 0.0) -> Ticks:
    """One instance that serves one request after the other."""
    starts, ends, now = [], [], start_ms
    for duration in durations_ms:
        starts.append(int(now * MS))
        now += duration
        ends.append(int(now * MS))
    return Ticks(tuple(starts), tuple(ends))


def cell(rounds: Sequence[Sequence[Ticks]], batch: int = 1, **fields: Any) -> Cell:
    """A cell whose rounds hold the given instances."""
    given = {
        "network": "net",
        "scenario": "throughput",
        "contestant": Contestant("one", "native", "fp32", "node"),
        "placements": (Placement((0, 1), (0,), 2),),
        "environment": {},
        "checkpoint": {"symbol": "a", "params": "b"},
        **fields,
    }
    return Cell(batch=batch, rounds=tuple(Round(0.0, 0.0, 0.0, tuple(instances)) for instances in rounds), **given)
