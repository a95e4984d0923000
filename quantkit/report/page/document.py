"""A report as a value: sections of texts, tables and figures, which the page and the Markdown show alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Union

from quantkit.report.page.figure import Figure
from quantkit.report.page.table import Table
from quantkit.report.study.headline import Headline


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """A figure; ``file`` is its file's path in the report's folder, without ending."""

    figure: Figure
    file: str


@dataclass(frozen=True)
class Output:
    """What a process printed, word for word."""

    title: str
    lines: tuple[str, ...]


Block = Union[Text, Bullets, Table, Picture, Output]


@dataclass(frozen=True)
class Section:
    """Blocks under a title."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Part:
    """What there is to say about one run: its verdicts, what must be known to believe them, its sections.

    ``headline`` stands before all.
    """

    title: str
    verdicts: tuple[str, ...]
    reservations: tuple[str, ...]
    sections: tuple[Section, ...]
    headline: Optional[Headline] = None


@dataclass(frozen=True)
class Document:
    """The whole report; ``footer`` stands at its end."""

    title: str
    parts: tuple[Part, ...]
    footer: str = "Made by quantkit from raw clock readings. Ratios above 1 are better than the baseline."

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """All figures."""
        return tuple(
            block
            for part in self.parts
            for section in part.sections
            for block in section.blocks
            if isinstance(block, Picture)
        )
