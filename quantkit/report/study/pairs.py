"""Contestants beside those that they were put against."""

from __future__ import annotations

from dataclasses import dataclass

from quantkit.benchmark.results.statistics import Metric, Ratio, ratio
from quantkit.report.study.summary import Study


@dataclass(frozen=True)
class Pair:
    """How many times as fast ``contestant`` is as ``against``, for one network and batch size."""

    network: str
    batch: int
    contestant: str
    against: str
    metric: Metric
    factor: Ratio


def pairs(study: Study) -> tuple[Pair, ...]:
    """All pairs of which both have results, in the order of the run's contestants."""
    made = []
    for (network, batch, name), cell in study.cells.items():
        metric: Metric = "latency" if cell.scenario == "latency" else "throughput"
        for against in cell.contestant.against:
            other = study.cells.get((network, batch, against))
            if other is not None:
                made.append(Pair(network, batch, name, against, metric, ratio(cell, other, metric)))
    return tuple(made)
