"""Published figures beside ours, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from quantkit.benchmark.results.results import Published
from quantkit.report.page.table import Table
from quantkit.report.study.machines import machine_text, own_machine, published_figure, source_of
from quantkit.report.study.summary import METRICS, Row, Study, has_published_speedup, items, published_throughputs
from quantkit.report.study.words import factor, marked, number, ratio_text


def published_table(study: Study) -> Optional[Table]:
    """Each published figure beside ours, with the machine that it was measured on."""
    lines = [
        line for row in study.rows for line in (*_published_speedups(study, row), *_published_throughput(study, row))
    ]
    if not lines:
        return None
    ours = own_machine(study.run)
    columns = ("network", "batch size", "contestant", "", "this machine", "published", "share", "published for")
    return Table(
        "Published figures and ours",
        columns,
        tuple(lines),
        frozenset((1, 4, 5, 6)),
        f"{ours[:1].upper()}{ours[1:]}. The share is ours as a part of the published figure: two machines, "
        "so it says how far they differ, not which figure is right.",
    )


def _published_speedups(study: Study, row: Row) -> Iterator[tuple[str, ...]]:
    for metric in METRICS:
        if has_published_speedup(row, metric):
            figure, other = published_figure(study.run, row, metric, "speedup"), row.published[metric]
            ours = row.speedups[metric]
            what = f"{metric}, times {study.run.baseline}"
            printed = figure is not None and figure.metric == "speedup"
            theirs = f"{other:g}" if printed else factor(other)
            yield _published(study, row, what, ratio_text(ours), theirs, ours.value / other, figure)


def _published_throughput(study: Study, row: Row) -> Iterator[tuple[str, ...]]:
    other = published_throughputs(study.run).get(row.key)
    if other is not None:
        figure = published_figure(study.run, row, study.run.scenario, "throughput")
        what = f"{items(study, [row.network])}/s"
        yield _published(study, row, what, number(row.throughput), f"{other:g}", row.throughput / other, figure)


def _published(
    study: Study, row: Row, what: str, ours: str, other: str, share: float, figure: Optional[Published]
) -> tuple[str, ...]:
    doubtful = study.doubtful(row.network, row.batch, row.contestant, study.run.baseline)
    source = source_of(study.run, figure)
    machine = "" if source is None else machine_text(source.machine)
    if figure is not None and figure.own_batch:
        machine = f"{machine}, batch {figure.own_batch}" if machine else f"batch {figure.own_batch}"
    return (row.network, str(row.batch), row.contestant, what, marked(ours, doubtful), other, f"{share:.0%}", machine)
