"""The published figures that ship, as the tables of a page."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from command_line import table

from quantkit.benchmark.suites.published import PublishedTable, published_tables

_METRICS = {"throughput": "images/s", "speedup": "times native MXNet"}


def published_lines(data: Path) -> Iterator[str]:
    """Every table of the file ``data``, those for networks by batch size first, then those of other things."""
    for title, tables in groupby(published_tables().values(), key=lambda each: each.title):
        yield from (f"### {title}", "")
        for each in tables:
            yield from _of_networks(each)
    yield from ("### Other figures", "")
    for record in tomllib.loads(data.read_text())["record"]:
        yield from _caption(record["title"], record["machine"], record["unit"], record["source"])
        yield from table(record["columns"])
        yield from (f"| {' | '.join(_cell(value) for value in row)} |" for row in record["rows"])
        yield ""


def _of_networks(given: PublishedTable) -> Iterator[str]:
    machine = given.machine
    kind = "a GPU, for the record" if machine.gpu else f"{machine.cores} cores, {machine.isa}"
    for column, networks in given.figures.items():
        yield from _caption(f"{column}, {given.name}", f"{machine.name} ({kind})", _METRICS[given.metric], given.source)
        yield from table(["network", *(f"batch {batch}" for batch in given.batches)])
        yield from (f"| {name} | {' | '.join(map(_cell, values))} |" for name, values in networks.items())
        yield ""


def _caption(title: str, machine: str, unit: str, source: str) -> tuple[str, str]:
    return f"**{title}.** {machine}; {unit}. {source}.", ""


def _cell(value: object) -> str:
    if isinstance(value, list):
        return " / ".join(map(_cell, value))
    return str(value)
