"""The report as one self-contained page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quantkit.extras import using
from quantkit.report.page.document import Bullets, Document, Output, Picture, Text
from quantkit.report.page.drawing import panel_svg
from quantkit.report.page.figure import DARK, LIGHT
from quantkit.report.page.table import FACTS, Table
from quantkit.report.study.words import MARK, printable

if TYPE_CHECKING:
    from markupsafe import Markup

_TEMPLATE = Path(__file__).with_name("page.html.jinja")
_KINDS = {"text": Text, "bullets": Bullets, "table": Table, "picture": Picture, "output": Output}

# Markers of legends, as paths in a square from -5 to 5.
_SHAPES = {
    "o": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "s": "M-3.6-3.6h7.2v7.2h-7.2z",
    "D": "M0-4.6L4.6 0 0 4.6-4.6 0z",
    "^": "M0-4.2L4.4 3.6h-8.8z",
    "v": "M0 4.2L4.4-3.6h-8.8z",
    "P": "M-1.5-4.4h3v2.9h2.9v3h-2.9v2.9h-3v-2.9h-2.9v-3h2.9z",
    "X": "M-4.2-2.1l2.1-2.1L0-2.1l2.1-2.1 2.1 2.1L2.1 0l2.1 2.1-2.1 2.1L0 2.1l-2.1 2.1-2.1-2.1L-2.1 0z",
}
_DASHES = {"-": "none", "--": "5 3", ":": "1.5 2.5"}


def page(report: Document) -> str:
    """The whole page; all text from results is escaped."""
    with using("report", "reports"):
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup

    def visible(value: Any) -> Any:
        return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        autoescape=True, finalize=visible, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["unbroken"] = _unbroken
    for name, kind in _KINDS.items():
        environment.tests[name] = lambda block, kind=kind: isinstance(block, kind)
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        report=report, light=LIGHT, dark=DARK, drawings=_drawings(report), shapes=_SHAPES, dashes=_DASHES, facts=FACTS
    )


def _unbroken(text: str) -> Markup:
    """A text whose parenthesized parts are never broken across lines."""
    from markupsafe import Markup

    parts = re.split(rf"(\([^()]*\),?(?: {MARK})?)", printable(text))
    return Markup("").join(
        Markup('<span class="unbroken">{}</span>').format(part) if number % 2 else part
        for number, part in enumerate(parts)
    )


def _drawings(report: Document) -> dict[str, list[Markup]]:
    """The panels of each figure, by the figure's file."""
    from markupsafe import Markup

    return {
        picture.file: [
            Markup(panel_svg(panel, f"f{number}p{place}-")) for place, panel in enumerate(picture.figure.panels)
        ]
        for number, picture in enumerate(report.pictures)
    }
