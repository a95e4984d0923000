"""The report's figures as JSON and CSV, for other programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Optional

from quantkit.benchmark.results.cell_warnings import warnings
from quantkit.benchmark.results.results import Cell
from quantkit.benchmark.results.statistics import Ratio
from quantkit.host.revision import described
from quantkit.report.page.document import Document, Part
from quantkit.report.study.accuracy import graded
from quantkit.report.study.attribution import attributions
from quantkit.report.study.headline import speeds
from quantkit.report.study.pairs import pairs
from quantkit.report.study.scaling import scalings
from quantkit.report.study.summary import METRICS, PERCENTILES, Row, Study, published_throughputs
from quantkit.report.study.words import bounded

FORMAT = 1


def json_text(report: Document, studies: Sequence[Study]) -> str:
    """All figures as JSON; the ends of an unbounded interval are null."""
    # A part across hosts may stand before those of the runs.
    runs = [
        {"headline": _headline(study, part), "verdicts": part.verdicts, **_run(study)}
        for part, study in zip(report.parts[-len(studies) :], studies)
    ]
    document = {"format": FORMAT, "title": report.title, "runs": runs}
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _headline(study: Study, part: Part) -> Optional[dict[str, Any]]:
    """The speeds of the leading contestant, and the facts about them by name; null if there are none."""
    if part.headline is None:
        return None
    told = [{**asdict(each), "ratio": ratio_object(each.ratio)} for each in speeds(study)]
    return {"speeds": told, **dict(part.headline.facts)}


def _run(study: Study) -> dict[str, Any]:
    run = study.run
    published = published_throughputs(run)
    return {
        "name": run.name,
        "title": run.title,
        "state": run.state,
        "host": dict(run.host),
        "price_per_hour": study.price,
        "quantkit": run.quantkit,
        "revision": None if run.revision is None else asdict(run.revision),
        "baseline": run.baseline,
        "source_of_published": run.source,
        "published_sources": [asdict(source) for source in run.sources],
        "builds": [asdict(build) for build in run.builds],
        "contestants": [asdict(contestant) for contestant in run.contestants],
        "networks": [asdict(network) for network in run.networks],
        "warnings": run.warnings,
        "cells": [_row(row, published.get(row.key)) for row in study.rows],
        "attributions": [
            {
                "network": each.network,
                "batch": each.batch,
                "metric": each.metric,
                "steps": [
                    {
                        "label": step.label,
                        "contestant": step.contestant,
                        "factor": ratio_object(step.factor),
                        "total": ratio_object(step.total),
                        "doubtful": study.doubtful(each.network, each.batch, run.baseline, before, step.contestant),
                    }
                    for before, step in zip((run.baseline, *(step.contestant for step in each.steps)), each.steps)
                ],
            }
            for each in attributions(study)
        ],
        "pairs": [
            {
                **{name: getattr(each, name) for name in ("network", "batch", "contestant", "against", "metric")},
                "factor": ratio_object(each.factor),
                "doubtful": study.doubtful(each.network, each.batch, each.contestant, each.against),
            }
            for each in pairs(study)
        ],
        "scalings": [
            {
                **{name: getattr(each, name) for name in ("network", "batch", "build", "variant")},
                "points": [
                    {
                        **asdict(point),
                        "speedup": ratio_object(point.speedup),
                        "doubtful": study.doubtful(
                            each.network, each.batch, point.contestant, each.points[0].contestant
                        ),
                    }
                    for point in each.points
                ],
            }
            for each in scalings(study)
        ],
        "accuracy": [
            {
                "network": each.network,
                "weights": each.weights,
                "accuracy": dict(each.accuracy),
                "speedup": ratio_object(each.speedup),
                "doubtful": each.row is not None and study.doubtful(*each.row.key, run.baseline),
                "batch": each.row.batch if each.row else None,
            }
            for each in graded(study)
        ],
        "served": [
            {**_place(cell), "server": asdict(cell.server), "warnings": warnings(cell)}
            for cell in study.served
            if cell.server
        ],
        "failed": [{**_place(cell), **asdict(cell.failure)} for cell in study.failed if cell.failure],
        "left_out": [asdict(each) for each in study.left_out],
    }


def _place(cell: Cell) -> dict[str, Any]:
    return {"network": cell.network, "batch": cell.batch, "contestant": cell.contestant.name}


def _row(row: Row, published: Optional[float]) -> dict[str, Any]:
    return {
        "network": row.network,
        "batch": row.batch,
        "contestant": row.contestant,
        "scenario": row.scenario,
        "instances": row.instances,
        "rounds": row.rounds,
        "requests": row.requests,
        "throughput": row.throughput,
        "mean_latency_ms": row.mean_latency,
        **{f"p{percentile}_ms": value for percentile, value in zip(PERCENTILES, row.percentiles)},
        "speedups": {metric: ratio_object(value) for metric, value in row.speedups.items()},
        "published_speedups": dict(row.published),
        "published_throughput": published,
        "cost_per_million": row.cost,
        "warnings": row.warnings,
    }


def ratio_object(ratio: Optional[Ratio]) -> Optional[dict[str, Any]]:
    """A ratio as JSON's own types."""
    if ratio is None:
        return None
    low, high = (ratio.low, ratio.high) if bounded(ratio) else (None, None)
    return {"value": ratio.value, "low": low, "high": high, "verdict": ratio.verdict}


def csv_text(studies: Sequence[Study]) -> str:
    """One line for each cell, measured or not; missing values are empty.

    A text that a spreadsheet would interpret as a formula gets an apostrophe in front.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for study in studies:
        for line in _lines(study):
            writer.writerow({name: _harmless(value) for name, value in line.items()})
    return text.getvalue()


_RATIOS = [f"speedup_{metric}{end}" for metric in METRICS for end in ("", "_low", "_high", "_verdict", "_published")]
_COLUMNS = [
    *(
        "run",
        "quantkit",
        "commit",
        "network",
        "batch",
        "contestant",
        "build",
        "variant",
        "policy",
        "weights",
        "scenario",
        "status",
        "reason",
    ),
    *("instances", "rounds", "requests", "throughput", "published_throughput", "mean_latency_ms"),
    *(f"p{percentile}_ms" for percentile in PERCENTILES),
    *_RATIOS,
    *("cost_per_million", "warnings"),
]


def _lines(study: Study) -> list[dict[str, Any]]:
    published = published_throughputs(study.run)
    lines = [_measured(row, published.get(row.key)) for row in study.rows]
    lines += [
        {
            **_place(cell),
            "scenario": cell.scenario,
            "status": "served",
            "throughput": cell.server.rate * cell.batch,
            "warnings": "; ".join(warnings(cell)),
        }
        for cell in study.served
        if cell.server and not cell.rounds
    ]
    lines += [
        {**_place(cell), "scenario": cell.scenario, "status": "failed", "reason": cell.failure.reason}
        for cell in study.failed
        if cell.failure
    ]
    lines += [{**asdict(each), "status": "left out"} for each in study.left_out]
    contestants = {each.name: each for each in study.run.contestants}
    weights = {network.name: network.weights for network in study.run.networks}
    for line in lines:
        contestant = contestants.get(line["contestant"])
        if contestant:
            line.update(build=contestant.build, variant=contestant.variant, policy=contestant.policy)
        line.update(run=study.run.name, quantkit=study.run.quantkit, commit=described(study.run.revision))
        line.update(weights=weights.get(line["network"], ""))
    return lines


def _measured(row: Row, published: Optional[float]) -> dict[str, Any]:
    line = _row(row, published)
    speedups, others = line.pop("speedups"), line.pop("published_speedups")
    for metric in METRICS:
        ratio = speedups.get(metric) or {}
        line[f"speedup_{metric}"] = ratio.get("value")
        for end in ("low", "high", "verdict"):
            line[f"speedup_{metric}_{end}"] = ratio.get(end)
        line[f"speedup_{metric}_published"] = others.get(metric)
    return {**line, "status": "measured", "warnings": "; ".join(row.warnings)}


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
