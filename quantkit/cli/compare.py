"""``quantkit compare``: two runs of a benchmark, cell by cell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import click

from quantkit.cli.options import Verb, output_options
from quantkit.cli.terminal import Terminal

if TYPE_CHECKING:
    from quantkit.benchmark.statistics import Metric
    from quantkit.report.compare import Comparison

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
    help="End with 3 where a cell of NEW is surely slower than this many times OLD, such as 0.95.",
)
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
    metric: Optional[Metric],
) -> None:
    """Compare two runs of a benchmark, cell by cell.

    A ratio above 1 says that NEW is faster. It comes with a 95 % interval; where that holds 1, the two are
    not distinguishable. Runs of different hosts, or of networks with other weights, are refused.

    Exit code 3: with --fail-below, a cell's ratio is below the limit, its whole interval included. Cells that
    only one run has measured are named, and do not count.
    """
    from quantkit.benchmark.results import read_results
    from quantkit.report.compare import compare_results

    comparison = compare_results(read_results(old), read_results(new), fail_below, metric)
    terminal.show(_result(comparison, fail_below), *_tables(comparison))
    for key, why in comparison.only_old:
        terminal.warn(f"only OLD has measured {_named(*key)}; in NEW it is {why}")
    for key, why in comparison.only_new:
        terminal.warn(f"only NEW has measured {_named(*key)}; in OLD it is {why}")
    for cell in comparison.regressions:
        terminal.warn(f"slower than {fail_below:g} times OLD: {_named(cell.network, cell.batch, cell.contestant)}")
    if comparison.regressions:
        context.exit(REGRESSED)


def _named(network: str, batch: int, contestant: str) -> str:
    from quantkit.report.words import printable

    return printable(f"{network}, batch size {batch}, {contestant}")


def _result(comparison: Comparison, fail_below: Optional[float]) -> dict[str, Any]:
    from quantkit.report.export import ratio_object

    def side(cells: tuple[tuple[tuple[str, int, str], str], ...]) -> list[dict[str, Any]]:
        return [{"network": key[0], "batch": key[1], "contestant": key[2], "other": why} for key, why in cells]

    return {
        "fail_below": fail_below,
        "regressions": len(comparison.regressions),
        "cells": [
            {
                "network": cell.network,
                "batch": cell.batch,
                "contestant": cell.contestant,
                "metric": cell.metric,
                "ratio": ratio_object(cell.ratio),
                "regressed": cell.regressed,
            }
            for cell in comparison.cells
        ],
        "only_old": side(comparison.only_old),
        "only_new": side(comparison.only_new),
    }


def _tables(comparison: Comparison) -> list[Any]:
    from rich.markup import escape
    from rich.table import Table

    from quantkit.report.words import bounded, factor, printable

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, justify in (
        ("network", "left"),
        ("batch", "right"),
        ("contestant", "left"),
        ("metric", "left"),
        ("NEW/OLD", "right"),
        ("95 % interval", "left"),
        ("verdict", "left"),
    ):
        table.add_column(title, justify=justify, no_wrap=title != "network", overflow="fold")  # type: ignore[arg-type]
    for cell in comparison.cells:
        ratio = cell.ratio
        interval = f"{factor(ratio.low)} to {factor(ratio.high)}" if bounded(ratio) else "one round: none"
        verdict = "[bold red]REGRESSED[/]" if cell.regressed else ratio.verdict
        table.add_row(
            escape(printable(cell.network)),
            str(cell.batch),
            escape(printable(cell.contestant)),
            cell.metric,
            factor(ratio.value),
            interval,
            verdict,
        )
    return [table]
