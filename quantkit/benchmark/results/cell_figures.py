"""The figures of measured cells as JSON's own types, one row per cell."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Optional

import numpy as np

from quantkit.benchmark.results.cell_warnings import warnings
from quantkit.benchmark.results.results import Results
from quantkit.benchmark.results.statistics import Ratio, finished, latencies, mean_latency, ratio, throughput


def results_document(results: Results) -> dict[str, Any]:
    """The results of a run: the figures of its cells, what failed and why, and what the budget left out.

    ``minutes`` is how long the run took.
    """
    run = results.run
    failed = [
        {"network": cell.network, "batch": cell.batch, "contestant": cell.contestant.name, **asdict(cell.failure)}
        for cell in results.cells
        if cell.failure
    ]
    return {
        "suite": run.name,
        "figures": figures(results),
        "served": served(results),
        "failed": failed,
        "left_out": [asdict(each) for each in run.left_out],
        "minutes": run.minutes,
    }


def figures(results: Results) -> list[dict[str, Any]]:
    """For every measured cell its throughput (items/s), latencies (ms) and ratio to the baseline with its interval.

    ``requests`` counts what the instances finished in the common windows.
    """
    cells = {(cell.network, cell.batch, cell.contestant.name): cell for cell in results.cells if not cell.failure}
    rows = []
    for (network, batch, name), cell in cells.items():
        if not cell.rounds:
            continue
        metric: Any = "latency" if cell.scenario == "latency" else "throughput"
        baseline = cells.get((network, batch, results.run.baseline))
        times = np.percentile(latencies(cell), (50, 90, 99))
        rows.append(
            {
                "network": network,
                "batch": batch,
                "contestant": name,
                "scenario": cell.scenario,
                "requests": finished(cell),
                "throughput": throughput(cell),
                "mean_latency": mean_latency(cell),
                "p50": float(times[0]),
                "p90": float(times[1]),
                "p99": float(times[2]),
                "speedup": None if baseline is None else _ratio(ratio(cell, baseline, metric)),
                "warnings": list(warnings(cell)),
            }
        )
    return rows


def served(results: Results) -> list[dict[str, Any]]:
    """For every cell of the server scenario the highest rate (requests/s) within the bound (ms), 0.0 if none is.

    ``p99`` (ms) and ``valid``, LoadGen's verdict, are those of the run that confirmed the rate.
    """
    rows = []
    for cell in results.cells:
        if cell.server is None or cell.failure:
            continue
        last = cell.server.confirmed
        rows.append(
            {
                "network": cell.network,
                "batch": cell.batch,
                "contestant": cell.contestant.name,
                "bound": cell.server.bound,
                "rate": cell.server.rate,
                "p99": None if last is None else last.p99,
                "valid": None if last is None else last.valid,
                "warnings": list(warnings(cell)),
            }
        )
    return rows


def _ratio(interval: Ratio) -> dict[str, Any]:
    """A ratio as JSON's own types, which have no infinity: an unbounded interval has no upper end."""
    high: Optional[float] = interval.high if interval.high < float("inf") else None
    return {"value": interval.value, "low": interval.low, "high": high, "verdict": interval.verdict}
