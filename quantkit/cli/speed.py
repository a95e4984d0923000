"""Benchmark results on the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quantkit.benchmark.results.results import Cell, Results
    from quantkit.cli.console import RenderableType


# The number of last lines shown of a failed instance's output.
_LAST_LINES = 5


def tables(results: Results) -> Iterator[RenderableType]:
    """A table for each network, then what failed and what was left out."""
    from rich.table import Table
    from rich.text import Text

    from quantkit.benchmark.results.cell_figures import figures, served
    from quantkit.report.study.words import LEGEND, marked

    run = results.run
    rows = figures(results)
    doubtful = {(row["network"], row["batch"], row["contestant"]) for row in rows if row["warnings"]}
    order = {each.name: number for number, each in enumerate(run.contestants)}
    for network in run.networks:
        own = [row for row in rows if row["network"] == network.name]
        if not own:
            continue
        weights = " (random weights)" if network.weights == "random" else ""
        table = Table(title=f"\n{network.name}{weights}", title_justify="left", box=None, padding=(0, 2, 0, 0))
        for column, justify in (
            ("batch", "right"), ("contestant", "left"), (f"{network.item}s/s", "right"), ("p50 ms", "right"),
            ("p99 ms", "right"), (f"speed-up over {run.baseline}", "left"),
        ):  # fmt: skip
            table.add_column(column, justify=justify)  # type: ignore[arg-type]
        for row in sorted(own, key=lambda row: (row["batch"], order[row["contestant"]])):
            doubts = [(row["network"], row["batch"], name) in doubtful for name in (row["contestant"], run.baseline)]
            figure = [marked(f"{row[name]:.4g}", doubts[0]) for name in ("throughput", "p50", "p99")]
            ratio = _speedup(row, run.baseline)
            table.add_row(
                str(row["batch"]), row["contestant"], *figure, marked(ratio, any(doubts)),
            )  # fmt: skip
        yield table
    rates = served(results)
    yield from map(_rate, rates)
    if doubtful or any(row["warnings"] for row in rates):
        yield LEGEND
    for cell in results.cells:
        if cell.failure:
            where = "" if cell.failure.instance is None else f", instance {cell.failure.instance}"
            yield Text.assemble(("failed", "red"), f": {_cell(cell)}{where}: {cell.failure.reason}")
            yield from (f"    {line}" for line in cell.failure.stderr[-_LAST_LINES:])
    for (network, contestant), group in groupby(
        sorted(run.left_out, key=lambda each: (each.network, each.contestant, each.batch)),
        key=lambda each: (each.network, each.contestant),
    ):
        cells = list(group)
        batches = ", ".join(str(each.batch) for each in cells)
        yield f"left out: {network}, {contestant}, batch {batches}: {cells[0].reason}"
    kinds: dict[str, list[str]] = {}
    for text in (text for row in (*rows, *rates) for text in row["warnings"]):
        kinds.setdefault(re.sub(r"[\d.]+", "", text), []).append(text)
    for texts in kinds.values():
        such_as = ":" if len(set(texts)) == 1 else ", such as:"
        counted = f"{len(texts)} of {len(rows) + len(rates)} cells{such_as}"
        yield Text.assemble(("warning", "yellow"), f": {counted} {max(texts)}")
    for text in run.warnings:
        yield Text.assemble(("warning", "yellow"), f": {text}")


def _speedup(row: dict[str, Any], baseline: str) -> str:
    speedup = row["speedup"]
    if speedup is None or row["contestant"] == baseline:
        return "1" if speedup else "baseline missing"
    high = "inf" if speedup["high"] is None else f"{speedup['high']:.3g}"
    shown = f"{speedup['value']:.3g}  [{speedup['low']:.3g}, {high}]"
    return shown if speedup["verdict"] != "not distinguishable" else f"{shown} not distinguishable"


def _rate(row: Mapping[str, Any]) -> str:
    from quantkit.report.study.words import marked

    judged = "VALID" if row["valid"] else "INVALID"
    confirmed = f" (p99 {row['p99']:.3g} ms, LoadGen: {judged})" if row["p99"] is not None else ""
    where = f"{row['network']}, batch {row['batch']}, {row['contestant']}"
    rate = marked(f"{row['rate']:.4g} requests/s", bool(row["warnings"]))
    return f"{where}: {rate} within {row['bound']:g} ms{confirmed}"


def _cell(cell: Cell) -> str:
    return f"{cell.network}, batch {cell.batch}, {cell.contestant.name}"
