"""The report as Markdown, for repositories and issues."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from quantkit.report.page.document import Block, Bullets, Document, Output, Part, Picture, Text
from quantkit.report.page.table import FACTS, Table
from quantkit.report.study.words import printable


def markdown(report: Document) -> str:
    """The whole report; figures are links to the PNG files beside it, and all text from results is escaped."""
    several = len(report.parts) > 1
    lines = [f"# {escaped(report.title)}", ""]
    for part in report.parts:
        if several:
            lines += [f"**{escaped(part.title)}**", ""]
        lines += _headline(part)
        lines += _bullets((*part.verdicts[1:], *part.reservations))
    for part in report.parts:
        if several:
            lines += [f"## {escaped(part.title)}", ""]
        for section in part.sections:
            lines += [f"{'###' if several else '##'} {escaped(section.title)}", ""]
            for block in section.blocks:
                lines += _block(block)
    return "\n".join(lines).rstrip() + "\n"


def _headline(part: Part) -> list[str]:
    if part.headline is None:
        return [f"**{escaped(part.verdicts[0])}**", ""]
    figures = [f"**{escaped(value)}** {escaped(says)}" for value, says in part.headline.figures]
    facts = [f"{name}: {value}" for name, value in part.headline.facts]
    return [*(line for figure in figures for line in (figure, "")), *_bullets(facts), escaped(part.verdicts[0]), ""]


def escaped(text: str) -> str:
    """A text that Markdown shows literally, on one line."""
    plain = re.sub(r"([\\`*_\[\]<>#|~&$])", r"\\\1", printable(text)).replace("://", ":\\//")
    # These would underline a heading or begin a list.
    return re.sub(r"^(\d+)(?=[.)](\s|$))", r"\1\\", re.sub(r"^(?=[-+=])", r"\\", plain))


def _block(block: Block) -> list[str]:
    if isinstance(block, Text):
        return [escaped(block.text), ""]
    if isinstance(block, Bullets):
        return _bullets(block.items)
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Output):
        return [f"{escaped(block.title)}:", "", *(f"    {printable(line)}" for line in block.lines), ""]
    return _picture(block)


def _bullets(items: Sequence[str]) -> list[str]:
    return [*(f"- {escaped(item)}" for item in items), ""] if items else []


def _picture(picture: Picture) -> list[str]:
    figure = picture.figure
    return [f"![{escaped(figure.title)}]({picture.file}.png)", "", escaped(figure.remarks), ""]


def _table(table: Table) -> list[str]:
    if table.columns == FACTS:
        return [f"**{escaped(table.title)}**", "", *_bullets([f"{name}: {value}" for name, value in table.rows])]
    rules = ["---:" if number in table.numeric else "---" for number in range(len(table.columns))]
    lines = [f"**{escaped(table.title)}**", "", _row(map(escaped, table.columns)), _row(rules)]
    lines += [_row(map(escaped, row)) for row in table.rows]
    return [*lines, "", *([escaped(table.remarks), ""] if table.remarks else [])]


def _row(values: Iterable[str]) -> str:
    return f"| {' | '.join(values)} |"
