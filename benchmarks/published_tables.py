"""The published figures that ship, as the tables of a page."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from command_line import table

from quantkit.benchmark.suites.published import PublishedTable, published_tables

_METRICS = {"throughput": "images/s", "speedup": "times native MXNet"}


def published_lines(data: Path) -> Iterator[str]:
    """Every table of the file ``data``, those for networks by batch size first, then those of other things."""
    for title, tables in groupby(published_tables().values(), key=lambda each: each.title):
        yield from (f"## {title}", "")
        for each in tables:
            yield from _of_networks(each)
    yield from ("## Other figures", "")
    for record in tomllib.loads(data.read_text())["record"]:
        source = "; ".join(filter(None, (record["source"], record.get("conditions"))))
        yield from _caption(f"**{record['title']}**", record["machine"], record["unit"], source)
        yield from _table(record["columns"], record["rows"])


def record(name: str) -> dict[str, Any]:
    """The published figures of that name, other than those of networks by batch size."""
    records = tomllib.loads(Path(__file__).with_name("published.toml").read_text())["record"]
    return next(each for each in records if each["name"] == name)


def _of_networks(given: PublishedTable) -> Iterator[str]:
    machine = given.machine
    where = (
        f"{machine.name}, a GPU, for the record"
        if machine.gpu
        else f"{machine.name} ({machine.cores} cores, {machine.isa})"
    )
    first, *others = map(str, given.batches)
    for column, networks in given.figures.items():
        yield from _caption(f"**{column}**, table `{given.name}`", where, _METRICS[given.metric], given.cited)
        yield from _table(
            ["network", f"batch {first}", *others], [(name, *values) for name, values in networks.items()]
        )


def _caption(title: str, machine: str, unit: str, source: str) -> tuple[str, str]:
    return f"{title}: {machine}; {unit}. {source.rstrip('.?')}.", ""


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    head, _ = table(columns)
    yield head
    yield "|".join(("", *("---" if _is_text(values) else "---:" for values in zip(*rows)), ""))
    yield from (f"| {' | '.join(map(_cell, row))} |" for row in rows)
    yield ""


def _is_text(values: Sequence[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _cell(value: object) -> str:
    if isinstance(value, list):
        return " / ".join(map(_cell, value))
    return str(value)
