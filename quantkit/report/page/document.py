"""A report as a value: sections of texts, tables and figures, rendered as a page and as Markdown."""

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
    """A figure; ``file`` is its path in the report's folder, without suffix."""

    figure: Figure
    file: str


@dataclass(frozen=True)
class Output:
    """The verbatim output of a process."""

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
    """The report on one run: the headline, its verdicts, reservations about them, and its sections."""

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
