"""A table as a value."""

from __future__ import annotations

from dataclasses import dataclass

from quantkit.report.study.words import LEGEND, MARK

# The columns of a table of facts.
FACTS = ("fact", "value")


@dataclass(frozen=True)
class Table:
    """Texts in rows; the first column names the row, columns numbered in ``numeric`` hold numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()
    note: str = ""

    @property
    def remarks(self) -> str:
        """The note, and the legend of the mark for doubtful figures if a row has it."""
        legend = LEGEND if any(MARK in value for row in self.rows for value in row) else ""
        return " ".join(filter(None, (self.note, legend)))

    @property
    def grouped(self) -> bool:
        """Whether several rows have the same name."""
        return len({row[0] for row in self.rows}) < len(self.rows)

    def __bool__(self) -> bool:
        return bool(self.rows)
