"""Figures that others published: the tables that ship, and which of them stand beside the cells of a suite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import log
from typing import TYPE_CHECKING, ClassVar, Literal, Optional, Union

from quantkit.benchmark.results.results import Machine, Published, PublishedSource
from quantkit.errors import UserError
from quantkit.files.files import shipped
from quantkit.files.text import read_toml
from quantkit.host.cpu import read_cpu

if TYPE_CHECKING:
    from pydantic import ConfigDict

Value = Union[float, Literal["OOM"]]


@dataclass(frozen=True)
class PublishedTable:
    """A table of figures for networks, by batch size.

    Attributes:
        name: of the table.
        source: where it was published.
        machine: on which it was measured.
        scenario: the scenario of ours that it belongs to.
        metric: ``throughput`` (items/s), ``latency`` (ms) or ``speedup`` (times the baseline).
        batches: the batch sizes.
        figures: by column and network, one for each batch size; ``OOM`` where memory did not suffice.
        title: of the table.
    """

    name: str
    source: str
    machine: Machine
    scenario: str
    metric: Literal["throughput", "latency", "speedup"]
    batches: tuple[int, ...]
    figures: Mapping[str, Mapping[str, tuple[Value, ...]]]
    title: str = ""


@dataclass(frozen=True)
class Beside:
    """Published figures beside those of a suite: one of ``tables``, which differ in their machines.

    ``columns`` maps contestants to columns of the table.
    """

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    tables: tuple[str, ...]
    columns: Mapping[str, str]


@cache
def published_tables() -> Mapping[str, PublishedTable]:
    """The tables that ship, by name."""
    from pydantic import TypeAdapter

    document = read_toml(shipped("benchmarks") / "published.toml")
    tables = TypeAdapter(tuple[PublishedTable, ...]).validate_python(document["table"])
    return {table.name: table for table in tables}


def beside(
    choices: Sequence[Beside], networks: Sequence[str], machine: Optional[str], where: str
) -> tuple[tuple[Published, ...], tuple[PublishedSource, ...]]:
    """The published figures beside the cells of a suite, and where they are from.

    Args:
        choices: what the suite names.
        networks: those of the suite.
        machine: the end of a machine's name in any case, such as ``c5.xlarge``; None: of the tables of each choice, the
            one whose machine has the number of cores nearest to this one's.
        where: names the suite in messages.

    Raises:
        UserError: the suite names no table or column that there is, or none of the machine.
    """
    tables = [[_table(name, where) for name in choice.tables] for choice in choices]
    if machine is None:
        cores = read_cpu().usable_cores
        chosen = [(_nearest(each, cores), choice) for each, choice in zip(tables, choices)]
    else:
        _check_machine(machine, [table for each in tables for table in each], where)
        chosen = [(table, choice) for each, choice in zip(tables, choices) for table in each if _fits(table, machine)]
    figures = tuple(
        figure for table, choice in chosen for figure in _figures(table, choice.columns, where)
        if figure.network in networks
    )  # fmt: skip
    return figures, tuple(PublishedSource(table.name, table.source, table.machine) for table, _ in chosen)


def _table(name: str, where: str) -> PublishedTable:
    tables = published_tables()
    if name not in tables:
        raise UserError(f"{where}: there is no published table {name!r}; there are {', '.join(tables)}")
    return tables[name]


def _nearest(tables: Sequence[PublishedTable], cores: int) -> PublishedTable:
    """The table of the machine nearest in cores, by their ratio; GPUs come last."""
    return min(tables, key=lambda table: abs(log(table.machine.cores / cores)) if table.machine.cores else float("inf"))


def _fits(table: PublishedTable, machine: str) -> bool:
    return f" {table.machine.name}".lower().endswith(f" {machine.lower()}")


def _check_machine(machine: str, tables: Sequence[PublishedTable], where: str) -> None:
    if not any(_fits(table, machine) for table in tables):
        names = ", ".join(dict.fromkeys(each.machine.name for each in tables))
        there = f"there are those of {names}" if names else "the suite has none"
        raise UserError(f"{where}: there are no published figures of a machine {machine!r}; {there}")


def _figures(table: PublishedTable, columns: Mapping[str, str], where: str) -> Iterator[Published]:
    for contestant, column in columns.items():
        if column not in table.figures:
            raise UserError(f"{where}: the table {table.name} has no column {column!r}, but {', '.join(table.figures)}")
        for network, values in table.figures[column].items():
            for batch, value in zip(table.batches, values):
                if value != "OOM":
                    yield Published(network, batch, contestant, table.scenario, table.metric, value, table.name)
