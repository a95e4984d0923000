"""Drawing figures: sheets as PNG and SVG, and panels as SVG with the colours of the page."""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any
from xml.etree import ElementTree

from quantkit.report.page.figure import LIGHT, Entry, Figure, Panel
from quantkit.report.page.load_matplotlib import load_matplotlib
from quantkit.report.study.words import printable, shortened

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure as Sheet

_DPI = 160
# Characters of a legend entry on a sheet.
_LABEL = 28
_LETTERS_PER_INCH = 15
_FONTS = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', Arial, sans-serif"
_SETTINGS: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "axes.labelcolor": LIGHT["muted"],
    "axes.edgecolor": LIGHT["muted"],
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": LIGHT["grid"],
    "grid.linewidth": 0.7,
    "hatch.color": LIGHT["paper"],
    "hatch.linewidth": 0.8,
    "xtick.color": LIGHT["muted"],
    "ytick.color": LIGHT["muted"],
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "text.color": LIGHT["ink"],
    "text.parse_math": False,
    "figure.facecolor": LIGHT["paper"],
    "svg.fonttype": "none",
    "svg.hashsalt": "quantkit",
}


@contextmanager
def _style() -> Iterator[None]:
    with load_matplotlib().rc_context(_SETTINGS):
        yield


def write_sheet(figure: Figure, file: IO[bytes], kind: str) -> None:
    """Write all panels on one sheet, on light paper; ``kind`` is ``png`` or ``svg``."""
    with _style():
        _sheet(figure).savefig(file, format=kind, dpi=_DPI, metadata={"Date": None} if kind == "svg" else None)


def _sheet(figure: Figure) -> Sheet:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Sheet
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = min(len(figure.panels), 2 if len(figure.panels) in (2, 4) else 3)
    rows = math.ceil(len(figure.panels) / columns)
    width = max(columns * max(panel.width for panel in figure.panels), 4.2)
    longest = max(min(len(entry.label), _LABEL) for entry in figure.legend)
    entries_a_row = max(1, int(width / (0.5 + 0.075 * longest)))
    note = textwrap.wrap(printable(figure.note), int(width * _LETTERS_PER_INCH))
    head = 0.45 + 0.22 * math.ceil(len(figure.legend) / entries_a_row) + 0.16 * len(note)
    height = rows * (max(panel.height for panel in figure.panels) + 0.25) + head
    sheet = Sheet(figsize=(width, height), layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08))
    FigureCanvasAgg(sheet)
    sheet.suptitle(figure.title, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
    for number, panel in enumerate(figure.panels):
        axes = sheet.add_subplot(rows, columns, number + 1)
        panel.draw(axes)
        if panel.title:
            axes.set_title(shortened(panel.title, int(panel.width * 13)))
    sheet.legend(
        handles=[_handle(entry) for entry in figure.legend],
        loc="outside lower left",
        ncols=min(len(figure.legend), entries_a_row),
        frameon=False,
        handlelength=1.6,
        title="\n".join(note) or None,
        title_fontsize=7.5,
        alignment="left",
    )
    return sheet


def _handle(entry: Entry) -> Artist:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    style, label = entry.style, shortened(entry.label, _LABEL)
    if entry.kind == "bar":
        return Patch(facecolor=style.value, hatch=style.hatch, label=label)
    if entry.kind == "line":
        return Line2D([], [], color=style.value, linestyle=style.line, linewidth=1.6, label=label)
    face = style.value if entry.kind == "marker" else LIGHT["paper"]
    return Line2D(
        [],
        [],
        color=style.value,
        marker=style.marker,
        markerfacecolor=face,
        linestyle="none",
        markersize=5,
        label=label,
    )


def panel_svg(panel: Panel, prefix: str) -> str:
    """A panel as an SVG element for a page.

    Colours are CSS variables (``--ink`` and so on), so that one drawing serves light and dark pages.
    ``prefix`` makes its ids unique in the page.
    """
    buffer = io.StringIO()
    with _style():
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure as Sheet

        sheet = Sheet(figsize=(panel.width, panel.height), layout="constrained")
        FigureCanvasSVG(sheet)
        panel.draw(sheet.add_subplot())
        sheet.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _for_page(buffer.getvalue(), panel, prefix)


_NAMES = {value: name for name, value in LIGHT.items()}
_LINKS = {"href", "clip-path", "style"}


def _for_page(svg: str, panel: Panel, prefix: str) -> str:
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {
            name: value
            for name, value in ((_local(name), _value(_local(name), value, prefix)) for name, value in element.items())
            if not (name == "transform" and value.startswith("rotate(-0"))
        }
        element.tail = None
        element.text = element.text if element.text and element.text.strip() else None
    for parent in list(root.iter()):
        for child in list(parent):
            # The style sheet would apply to the whole page.
            if child.tag in {"metadata", "style"}:
                parent.remove(child)
    root.attrib = {
        "role": "img",
        "aria-label": printable(panel.alternative),
        "viewBox": root.attrib["viewBox"],
        "style": f"stroke-linejoin: round; font-family: {_FONTS}",
    }
    _only_ids_in_use(root)
    return ElementTree.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _value(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return prefix + value
    if name in _LINKS:
        value = re.sub(r"(^#|url\(#)(?=[a-z]+[0-9a-f]{10}\b)", rf"\g<1>{prefix}", value)
    if name in {"style", "fill", "stroke"}:
        value = re.sub(r"#[0-9a-f]{6}", lambda match: _variable(match[0]), value)
        return re.sub(r" font-family: [^;]*;?", "", value)
    # A hundredth of a point is invisible.
    return re.sub(r"\d+\.\d{3,}", lambda match: f"{float(match[0]):.2f}", " ".join(value.split()))


def _variable(colour: str) -> str:
    name = _NAMES.get(colour)
    return f"var(--{name})" if name else colour


def _only_ids_in_use(root: ElementTree.Element) -> None:
    links = " ".join(value for element in root.iter() for name, value in element.items() if name in _LINKS)
    used = set(re.findall(r"#([\w.-]+)", links))
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)
