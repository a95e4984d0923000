"""``quantkit compare``: two runs of a benchmark, cell by cell."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

import click

from quantkit.cli.options import Verb, output_options
from quantkit.cli.terminal import Terminal
from quantkit.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from quantkit.benchmark.results.statistics import Metric
    from quantkit.report.study.compare import Absent, Compared, Comparison

REGRESSED = 3


@click.command(
    cls=Verb,
    examples=(
        "quantkit compare before/ after/",
        "quantkit compare before/ after/ --fail-below 0.95",
        "quantkit compare before/ after/ --metric latency --json",
    ),
)
@click.argument("old", type=click.Path(path_type=Path), metavar="OLD")
@click.argument("new", type=click.Path(path_type=Path), metavar="NEW")
@click.option(
    "--fail-below",
    type=click.FloatRange(min=0, min_open=True),
    metavar="RATIO",
    help="End with 3 where a cell of NEW is slower than this many times OLD, such as 0.95, failed or is missing.",
)
@click.option("--allow-missing", is_flag=True, help="With --fail-below: cells that NEW has not tried do not count.")
@click.option(
    "--metric",
    type=click.Choice(["throughput", "latency"]),
    help="What to compare.  [default: what each cell was measured for]",
)
@output_options
@click.pass_context
def compare(
    context: click.Context,
    terminal: Terminal,
    old: Path,
    new: Path,
    fail_below: Optional[float],
    allow_missing: bool,
    metric: Optional[Metric],
) -> None:
    """Compare two runs of a benchmark, cell by cell.

    A ratio above 1 means that NEW is faster. It comes with a 95 % interval, a bootstrap over the rounds of each
    run; if that contains 1, the two are not distinguishable. The interval does not cover the variation from one
    run to the next: two runs of the same thing may differ by more. Repeat both runs before you believe a
    small difference. A cell that other processes disturbed in either run gets no verdict.

    Cells of the server scenario are compared by their rates, whatever the metric. A search finds a single rate,
    without an interval: two rates differ if they are further apart than the resolution of the searches.

    Runs of different hosts, of networks with other weights, or with other latency bounds are refused.

    Exit code 3: with --fail-below, a cell's ratio is below the limit, its whole interval included, and others
    did not disturb it; or OLD has measured a cell that failed in NEW; or one that NEW has not tried, unless
    --allow-missing is given. Cells that only NEW has measured do not count.
    """
    from quantkit.benchmark.results.result_files import read_results
    from quantkit.report.study.compare import compare_results

    if allow_missing and fail_below is None:
        raise UserError("--allow-missing changes what --fail-below counts; give --fail-below as well")
    comparison = compare_results(read_results(old), read_results(new), fail_below, metric, allow_missing)
    terminal.show(_result(comparison, fail_below), *_shown(comparison))
    for warning in _warnings(comparison, fail_below):
        terminal.warn(warning)
    if comparison.regressions:
        context.exit(REGRESSED)


def _warnings(comparison: Comparison, fail_below: Optional[float]) -> Iterator[str]:
    from quantkit.report.study.words import counted, printable

    for this, other, cells in (("OLD", "NEW", comparison.only_old), ("NEW", "OLD", comparison.only_new)):
        for cell in cells:
            yield f"only {this} has measured {_named(cell)}; in {other} it {printable(cell.why)}"
    if fail_below is None:
        return
    for slower in comparison.slower:
        yield f"slower than {fail_below:g} times OLD: {_named(slower)}"
    if comparison.lost:
        has = "has" if len(comparison.lost) == 1 else "have"
        yield f"{counted(len(comparison.lost), 'cell')} of OLD {has} no result in NEW, which counts as a regression"
    disturbed = sum(1 for cell in comparison.cells if cell.disturbed)
    if disturbed:
        was = "was" if disturbed == 1 else "were"
        yield f"{counted(disturbed, 'cell')} {was} disturbed by others and not judged: measure again on a quiet machine"


def _named(cell: Union[Compared, Absent]) -> str:
    from quantkit.report.study.words import printable

    return printable(f"{cell.network}, batch size {cell.batch}, {cell.contestant}")


def _result(comparison: Comparison, fail_below: Optional[float]) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "fail_below": fail_below,
        "regressions": comparison.regressions,
        "cells": [
            {
                "network": cell.network,
                "batch": cell.batch,
                "contestant": cell.contestant,
                "metric": cell.metric,
                "ratio": cell.ratio.value if math.isfinite(cell.ratio.value) else None,
                "interval": cell.interval,
                "verdict": cell.verdict,
                "disturbed": cell.disturbed,
                "warnings": cell.warnings,
                "regressed": cell.regressed,
            }
            for cell in comparison.cells
        ],
        "only_old": [asdict(cell) for cell in comparison.only_old],
        "only_new": [asdict(cell) for cell in comparison.only_new],
    }


def _shown(comparison: Comparison) -> Iterator[Union[str, Table]]:
    """A table for each network and metric, then notes about them."""
    from quantkit.report.study.words import LEGEND, drawn_together, printable

    groups: dict[str, list[Compared]] = {}
    for cell in comparison.cells:
        groups.setdefault(f"{cell.network}, {cell.metric}", []).append(cell)
    for title, cells in groups.items():
        yield _table(title, cells)
    notes = [f"Disturbed: {text}" for text in drawn_together(_disturbances(comparison), "cell")]
    if any(cell.interval for cell in comparison.cells):
        notes.append("The intervals do not cover the variation from one run to the next.")
    if any(cell.metric == "rate" for cell in comparison.cells):
        notes.append(
            "Rates have no interval: they differ if they are further apart than the resolution of the searches."
        )
    if any(cell.metric != "rate" and not cell.interval for cell in comparison.cells):
        notes.append("There is no interval where OLD or NEW has a single round.")
    doubts = [text for cell in comparison.cells for text in cell.warnings if text not in cell.disturbed]
    notes += [f"Warning: {text}" for text in drawn_together(doubts, "cell")]
    if any(cell.warnings for cell in comparison.cells):
        notes.append(LEGEND)
    if notes:
        yield ""
        yield from (printable(note) for note in notes)


def _disturbances(comparison: Comparison) -> Iterator[str]:
    return (text for cell in comparison.cells for text in cell.disturbed)


def _table(title: str, cells: list[Compared]) -> Table:
    """Cells under a title; only the contestants' names wrap on a narrow terminal."""
    from rich.table import Table
    from rich.text import Text

    from quantkit.report.study.words import factor, marked, printable

    table = Table(
        title=f"\n{printable(title)}",
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="",
    )
    table.add_column("batch", justify="right", no_wrap=True)
    table.add_column("contestant", overflow="fold")
    table.add_column("NEW/OLD", justify="right", no_wrap=True)
    table.add_column("95 % interval", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for cell in cells:
        ratio = factor(cell.ratio.value) if math.isfinite(cell.ratio.value) else "OLD: 0"
        ratio = marked(ratio, bool(cell.warnings))
        interval = " to ".join(map(factor, cell.interval)) if cell.interval else "none"
        verdict = Text("REGRESSED", "bold red") if cell.regressed else cell.verdict
        table.add_row(str(cell.batch), printable(cell.contestant), ratio, interval, verdict)
    return table
