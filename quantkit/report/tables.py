"""The tables of a report."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Optional

from quantkit.benchmark.results.results import Network
from quantkit.benchmark.results.statistics import Metric
from quantkit.report.page.table import Table
from quantkit.report.study.accuracy import graded
from quantkit.report.study.attribution import attributions
from quantkit.report.study.scaling import scalings
from quantkit.report.study.summary import METRICS, PERCENTILES, Row, Study, items, key_of, published_throughputs
from quantkit.report.study.verdict import judgement
from quantkit.report.study.words import factor, marked, number, plural, ratio_text
from quantkit.units import percent


def speedup_table(study: Study) -> tuple[Table, ...]:
    """The ratios to the baseline, a table for each metric that cells were measured for."""
    return tuple(
        _speedups(study, metric, rows)
        for metric in METRICS
        if (rows := [row for row in study.rows if row.metric == metric]) and any(row.speedup for row in rows)
    )


def _speedups(study: Study, metric: Metric, rows: list[Row]) -> Table:
    by_key = {row.key: row for row in rows}
    names = [name for name in study.challengers if any(row.contestant == name for row in rows)]
    unit = f"{items(study, (row.network for row in rows))}/s" if metric == "throughput" else "ms"
    lines = []
    for network, batch in dict.fromkeys((row.network, row.batch) for row in rows):
        base = by_key.get((network, batch, study.run.baseline))
        alone = study.doubtful(network, batch, study.run.baseline)
        line = [network, str(batch), marked(_absolute(base, metric), alone) if base else "no result"]
        for name in names:
            row = by_key.get((network, batch, name))
            line.append("no result" if row is None else _speedup(study, row, "no baseline", metric))
        lines.append(tuple(line))
    columns = ("network", "batch size", f"{study.run.baseline}, {unit}", *names)
    return Table(
        f"Speed-up in {metric} over {study.run.baseline}",
        columns,
        tuple(lines),
        frozenset(range(1, len(columns))),
        noted("Times as fast as the baseline; in parentheses the 95 % interval.", study, (row.network for row in rows)),
    )


def noted(note: str, study: Study, networks: Iterable[str]) -> str:
    """A table's note, and which of its networks have random weights."""
    return " ".join(filter(None, (note, study.weights_note(networks))))


def _speedup(study: Study, row: Row, missing: str, metric: Metric) -> str:
    """The ratio of a cell to the baseline, marked if either of the two is doubtful."""
    ratio = row.speedups.get(metric)
    if ratio is None:
        return missing
    return marked(ratio_text(ratio), study.doubtful(row.network, row.batch, row.contestant, study.run.baseline))


def _absolute(row: Row, metric: Metric) -> str:
    return number(row.throughput if metric == "throughput" else row.mean_latency)


def attribution_table(study: Study) -> Table:
    """The factor of each step for every network and batch size; empty if there is only one step."""
    shown = attributions(study)
    if all(len(each.steps) == 1 for each in shown):
        shown = ()
    steps = list(dict.fromkeys(step.label for each in shown for step in each.steps))
    rows = []
    for each in shown:
        before = [study.run.baseline, *(step.contestant for step in each.steps)]
        doubts = [study.doubtful(each.network, each.batch, *pair) for pair in pairwise(before)]
        factors = {step.label: marked(ratio_text(step.factor), doubt) for step, doubt in zip(each.steps, doubts)}
        total = marked(
            ratio_text(each.steps[-1].total), study.doubtful(each.network, each.batch, before[0], before[-1])
        )
        rows.append((each.network, str(each.batch), *(factors.get(step, "") for step in steps), total))
    return Table(
        f"Steps from {study.run.baseline}",
        ("network", "batch size", *steps, "all"),
        tuple(rows),
        frozenset(range(1, len(steps) + 3)),
        noted(
            "Times as fast as after the step before; in parentheses the 95 % interval.",
            study,
            (each.network for each in shown),
        ),
    )


def scaling_table(study: Study) -> Table:
    """Every placement of every variant."""
    return Table(
        "Placements",
        (
            "network",
            "batch size",
            "variant",
            "policy",
            "instances",
            "threads",
            "times the smallest",
            "ideal",
            "efficiency",
        ),
        tuple(
            (
                each.network,
                str(each.batch),
                f"{each.variant} on {each.build}",
                point.policy,
                str(point.instances),
                str(point.threads),
                "1 (the smallest)"
                if number == 0
                else marked(
                    ratio_text(point.speedup),
                    study.doubtful(each.network, each.batch, point.contestant, each.points[0].contestant),
                ),
                factor(point.ideal),
                percent(point.efficiency),
            )
            for each in scalings(study)
            for number, point in enumerate(each.points)
        ),
        frozenset({1, 4, 5, 6, 7, 8}),
        study.weights_note(each.network for each in scalings(study)),
    )


def accuracy_table(study: Study) -> Table:
    """The known accuracy of the INT8 networks, beside their speed."""
    rows = graded(study)
    measures = list(dict.fromkeys(name for each in rows for name in each.accuracy))
    columns = ("network", *measures, "INT8 over the baseline", "at batch size")
    return Table(
        "Accuracy of the INT8 networks",
        columns,
        tuple(
            (
                each.network + (": random weights, accuracy means nothing" if each.weights == "random" else ""),
                *(_share(name, each.accuracy.get(name)) for name in measures),
                _speedup(study, each.row, "no result", each.row.metric) if each.row else "no result",
                str(each.row.batch) if each.row else "",
            )
            for each in rows
        ),
        frozenset(range(1, len(columns))),
    )


def _share(name: str, value: Optional[float]) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if name == "cosine" else percent(value)


def server_table(study: Study) -> Table:
    """Every tested rate of the server scenario."""
    return Table(
        "Rates of requests",
        (
            "network",
            "batch size",
            "contestant",
            "bound, ms",
            "requests/s",
            "completed",
            "p50, ms",
            "p90, ms",
            "p99, ms",
            "LoadGen's verdict",
        ),
        tuple(
            (
                cell.network,
                str(cell.batch),
                cell.contestant.name,
                number(cell.server.bound),
                marked(number(trial.rate), study.doubtful(*key_of(cell))),
                str(trial.completed),
                number(trial.p50),
                number(trial.p90),
                number(trial.p99),
                judgement(trial),
            )
            for cell in study.served
            if cell.server
            for trial in cell.server.trials
        ),
        frozenset(range(3, 9)) | {1},
        noted(
            "The search goes by the p99. LoadGen also asks for early stopping: enough requests to be sure that the p99 "
            "stays within the bound. A run that it calls invalid for other reasons than its length is refused.",
            study,
            (cell.network for cell in study.served),
        ),
    )


def cost_table(study: Study) -> Table:
    """The price of a million items, if the machine's price is known."""
    rows = [row for row in study.rows if row.cost is not None]
    names = [each.name for each in study.run.contestants if any(row.contestant == each.name for row in rows)]
    by_key = {row.key: row for row in rows}
    return Table(
        f"Cost per million {items(study, (row.network for row in rows))}",
        ("network", "batch size", *names),
        tuple(
            (
                network,
                str(batch),
                *(_cost(study, by_key.get((network, batch, name))) for name in names),
            )
            for network, batch in dict.fromkeys((row.network, row.batch) for row in rows)
        ),
        frozenset(range(1, len(names) + 2)),
        noted(
            "At the throughput measured. The price is that of the whole machine, whichever part of it the instances "
            "used.",
            study,
            (row.network for row in rows),
        ),
    )


def _cost(study: Study, row: Optional[Row]) -> str:
    return "no result" if row is None or row.cost is None else marked(number(row.cost), study.doubtful(*row.key))


def cell_tables(study: Study) -> tuple[Table, ...]:
    """All measurements, one table for each network."""
    published = published_throughputs(study.run)
    return tuple(_cells(study, network, published) for network in study.networks)


def _cells(study: Study, network: Network, published: dict[tuple[str, int, str], float]) -> Table:
    rows = [row for row in study.rows if row.network == network.name]
    with_published = any(row.key in published for row in rows)
    with_speedups = any(row.speedups for row in rows)
    columns = ["batch size", "contestant", "scenario", "instances", f"{plural(network.item)}/s"]
    columns += ["published"] * with_published + ["mean, ms"] + [f"p{each}, ms" for each in PERCENTILES]
    columns += ["speed-up in throughput", "speed-up in latency"] * with_speedups + ["requests", "rounds", "warnings"]
    lines = []
    for row in rows:
        doubtful = study.doubtful(*row.key)
        line = [str(row.batch), row.contestant, row.scenario, str(row.instances)]
        line.append(marked(number(row.throughput), doubtful))
        if with_published:
            line.append(number(published[row.key]) if row.key in published else "")
        line += [marked(number(value), doubtful) for value in (row.mean_latency, *row.percentiles)]
        if with_speedups:
            absent = "baseline" if row.contestant == study.run.baseline else "no baseline"
            line += [_speedup(study, row, absent, metric) for metric in METRICS]
        lines.append((*line, str(row.requests), str(row.rounds), str(len(row.warnings) or "none")))
    numeric = frozenset({0, *range(3, len(columns))})
    return Table(network.name, tuple(columns), tuple(lines), numeric, study.weights_note([network.name]))


def warning_table(study: Study) -> Table:
    """The warnings of each cell."""
    return Table(
        "Warnings of each cell",
        ("network", "batch size", "contestant", "warning"),
        tuple((network, str(batch), contestant, warning) for (network, batch, contestant), warning in study.warned),
        frozenset({1}),
    )


def left_out_table(study: Study) -> Table:
    """The cells that were not measured, with the reasons."""
    return Table(
        "Cells that were not measured",
        ("network", "batch size", "contestant", "reason"),
        tuple((each.network, str(each.batch), each.contestant, each.reason) for each in study.left_out),
        frozenset({1}),
    )
