"""Composing the report on runs of one host from its sections, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from quantkit.report.figures import figures
from quantkit.report.page.document import Block, Bullets, Document, Output, Part, Picture, Section, Text
from quantkit.report.pair_table import pair_table
from quantkit.report.published_table import published_table
from quantkit.report.setup import builds, contestants, grouped_warnings, host, kernels, provenance, thread_settings
from quantkit.report.study.headline import headline
from quantkit.report.study.machines import machine_text
from quantkit.report.study.summary import Study
from quantkit.report.study.verdict import reservations, verdicts
from quantkit.report.study.words import counted
from quantkit.report.tables import (
    accuracy_table,
    attribution_table,
    cell_tables,
    cost_table,
    left_out_table,
    scaling_table,
    server_table,
    speedup_table,
    warning_table,
)


def document(studies: Sequence[Study], title: Optional[str] = None) -> Document:
    """The report on runs of one host.

    Args:
        studies: the runs, evaluated.
        title: the report's title; None for that of the only run.
    """
    own = studies[0].run.title if len(studies) == 1 else "Benchmark results"
    folders = ["figures" if len(studies) == 1 else f"figures/{number}" for number in range(1, len(studies) + 1)]
    return Document(
        title or own,
        tuple(_part(study, folder) for study, folder in zip(studies, folders)),
    )


def _part(study: Study, folder: str) -> Part:
    drawn = {name: Picture(figure, f"{folder}/{name}") for name, figure in figures(study).items()}
    run = study.run
    sections: tuple[tuple[str, Sequence[Optional[Block]]], ...] = (
        ("Speed-up", [_no_speedup(study), drawn.get("throughput")]),
        ("Where it comes from", [drawn.get("attribution")]),
        ("Accuracy", [drawn.get("accuracy")]),
        ("Scaling over instances", [drawn.get("scaling")]),
        ("Latency", [drawn.get("latency"), drawn.get("distribution")]),
        ("Server", [drawn.get("server")]),
        ("Published figures", [drawn.get("published"), _sources(study)]),
        (
            "Tables",
            [
                *speedup_table(study),
                pair_table(study),
                *(attribution_table(study), accuracy_table(study), scaling_table(study), server_table(study)),
                *(cost_table(study), published_table(study)),
            ],
        ),
        ("All measurements", cell_tables(study)),
        (
            "Set-up",
            [host(study), provenance(run), builds(run), contestants(study), kernels(study), thread_settings(study)],
        ),
        ("Warnings", [_warnings(study), warning_table(study)]),
        ("Left out", [left_out_table(study)]),
        ("Failures", _failures(study)),
    )
    return Part(
        study.run.title,
        verdicts(study),
        reservations(study),
        tuple(
            Section(title, blocks)
            for title, blocks in ((title, tuple(each for each in parts if each)) for title, parts in sections)
            if blocks
        ),
        headline(study),
    )


def _warnings(study: Study) -> Bullets:
    texts = (*study.run.warnings, *grouped_warnings(study))
    return Bullets(texts or ("There are none.",))


def _no_speedup(study: Study) -> Optional[Text]:
    if any(row.speedups for row in study.rows) or not study.rows:
        return None
    baseline = study.run.baseline
    failed = sum(cell.contestant.name == baseline for cell in study.failed)
    left_out = sum(each.contestant == baseline for each in study.left_out)
    if any(row.contestant == baseline for row in study.rows):
        return Text(f"No speed-up is given: no other contestant has a result where the baseline, {baseline}, has one.")
    why = [f"{counted(failed, 'cell')} failed"] * bool(failed) + [f"{counted(left_out, 'cell')} left out"] * bool(
        left_out
    )
    reason = f" ({', '.join(why)})" if why else ""
    return Text(f"No speed-up is given: the baseline, {baseline}, has no result{reason}.")


def _sources(study: Study) -> Optional[Text]:
    """Where published figures are from; several tables may be of one source."""
    run = study.run
    texts = dict.fromkeys(f"{each.source} ({machine_text(each.machine)})" for each in run.sources)
    return Text(f"Published: {'; '.join((*texts, *filter(None, [run.source])))}") if run.published else None


def _failures(study: Study) -> list[Block]:
    blocks: list[Block] = []
    for cell in study.failed:
        failure = cell.failure
        if failure is None:
            continue
        who = f", instance {failure.instance}" if failure.instance is not None else ""
        where = f"{cell.network}, batch size {cell.batch}, {cell.contestant.name}{who}"
        blocks.append(Text(f"{where}: {failure.reason} ({failure.kind})"))
        if failure.stderr:
            blocks.append(
                Output(f"Last lines on standard error of {cell.contestant.name} ({cell.network})", failure.stderr)
            )
    return blocks
