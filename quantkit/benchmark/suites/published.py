"""Figures that others published: the tables that ship, and which of them stand beside the cells of a suite."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import log
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Optional, Union

from quantkit.benchmark.results.results import Machine, Published, PublishedSource
from quantkit.errors import UserError
from quantkit.files.files import shipped
from quantkit.files.schema import NotEmpty
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
        conditions: how it was measured, where that is told.
    """

    name: str
    source: str
    machine: Machine
    scenario: str
    metric: Literal["throughput", "latency", "speedup"]
    batches: tuple[int, ...]
    figures: Mapping[str, Mapping[str, tuple[Value, ...]]]
    title: str = ""
    conditions: str = ""

    @property
    def cited(self) -> str:
        """The source with the conditions."""
        return "; ".join(filter(None, (self.source, self.conditions)))


@dataclass(frozen=True)
class Beside:
    """Published figures beside those of a suite: one of ``tables``, which differ in their machines.

    ``columns`` maps contestants to columns of the table; ``nearest`` is that of ``Published``.
    """

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    tables: Annotated[tuple[str, ...], NotEmpty]
    columns: Mapping[str, str]
    nearest: bool = False


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
        machine: a machine's name or words of it, in any case, such as ``c5.xlarge``; None: of the tables of each
            choice, the one whose machine has the number of cores nearest to this one's.
        where: names the suite in messages.

    Raises:
        UserError: the suite names no table or column that there is, or none of the machine, or several machines have
            these words in their names.
    """
    tables = [[_table(name, where) for name in choice.tables] for choice in choices]
    if machine is None:
        cores = read_cpu().usable_cores
        chosen = [(_nearest(each, cores), choice) for each, choice in zip(tables, choices)]
    else:
        name = _named(machine, [table.machine.name for each in tables for table in each], where)
        chosen = [
            (table, choice) for each, choice in zip(tables, choices) for table in each if table.machine.name == name
        ]
    figures = tuple(
        figure for table, choice in chosen for figure in _figures(table, choice, where)
        if figure.network in networks
    )  # fmt: skip
    names = {figure.table for figure in figures}
    used = (table for table, _ in chosen if table.name in names)
    return figures, tuple(PublishedSource(table.name, table.cited, table.machine) for table in used)


def _table(name: str, where: str) -> PublishedTable:
    tables = published_tables()
    if name not in tables:
        raise UserError(f"{where}: there is no published table {name!r}; there are {', '.join(tables)}")
    return tables[name]


def _nearest(tables: Sequence[PublishedTable], cores: int) -> PublishedTable:
    """The table of the machine nearest in cores, by their ratio; GPUs come last."""
    return min(tables, key=lambda table: abs(log(table.machine.cores / cores)) if table.machine.cores else float("inf"))


def _named(machine: str, names: Sequence[str], where: str) -> str:
    """The machine that is called so, or the only one with these words in its name."""
    known = tuple(dict.fromkeys(names))
    fitting = [name for name in known if name.lower() == machine.lower()]
    fitting = fitting or [name for name in known if _words(machine) <= _words(name)]
    if len(fitting) > 1:
        raise UserError(f"{where}: {machine!r} may be {', '.join(fitting)}; give the whole name of one")
    if not fitting:
        there = f"there are those of {', '.join(known)}" if known else "the suite has none"
        raise UserError(f"{where}: there are no published figures of a machine {machine!r}; {there}")
    return fitting[0]


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[^\s(),]+", name.lower()))


def _figures(table: PublishedTable, choice: Beside, where: str) -> Iterator[Published]:
    for contestant, column in choice.columns.items():
        if column not in table.figures:
            raise UserError(f"{where}: the table {table.name} has no column {column!r}, but {', '.join(table.figures)}")
        for network, values in table.figures[column].items():
            for batch, value in zip(table.batches, values):
                if value != "OOM":
                    yield Published(
                        network, batch, contestant, table.scenario, table.metric, value, table.name, choice.nearest
                    )
