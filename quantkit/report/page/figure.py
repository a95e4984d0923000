"""Figures as values: their panels, colours and alternative texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from quantkit.benchmark.results.results import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Line = Literal["-", "--", ":"]

# Names of colours with their values on light and on dark paper. The colour-blind can distinguish the series (after
# Okabe and Ito), which have a contrast of at least 3 to 1 with the paper; inks have at least 4.5 to 1.
LIGHT = {
    "paper": "#ffffff",
    "ink": "#1c2530",
    "muted": "#586471",
    "grid": "#dde2e8",
    "baseline": "#6d7885",
    "series1": "#0072b2",
    "series2": "#d55e00",
    "series3": "#00916a",
    "series4": "#b4528b",
    "series5": "#9a6a00",
    "series6": "#5b4fc4",
}
DARK = {
    "paper": "#14191f",
    "ink": "#e6eaef",
    "muted": "#a3aebb",
    "grid": "#333d49",
    "baseline": "#94a0ad",
    "series1": "#4fabe6",
    "series2": "#f58a3c",
    "series3": "#35c497",
    "series4": "#e08dbb",
    "series5": "#d9a62e",
    "series6": "#a79cf7",
}
_SERIES = 6
_HATCHES = ("", "////", "....")
_LINES: tuple[Line, ...] = ("-", "--", ":")
_MARKERS = ("o", "s", "^", "v", "P", "X")


@dataclass(frozen=True)
class Style:
    """The look of a series: the name of its colour; hatch, line and marker distinguish it without colour."""

    colour: str
    hatch: str = ""
    line: Line = "-"
    marker: str = "o"

    @property
    def value(self) -> str:
        """The colour on light paper."""
        return LIGHT[self.colour]


@dataclass(frozen=True)
class Entry:
    """An entry of a legend; ``kind`` is ``bar``, ``line``, ``marker`` or ``hollow`` (a marker without filling)."""

    label: str
    style: Style
    kind: str


@dataclass(frozen=True)
class Panel:
    """One drawing of ``width`` by ``height`` inches: ``draw`` puts it on axes, ``alternative`` describes it."""

    title: str
    alternative: str
    draw: Callable[[Axes], None]
    width: float = 3.5
    height: float = 2.3


@dataclass(frozen=True)
class Figure:
    """Panels under one title; ``name`` is a file name without suffix.

    ``note`` must accompany the figure wherever it is shown.
    """

    name: str
    title: str
    caption: str
    legend: tuple[Entry, ...]
    panels: tuple[Panel, ...]
    note: str = ""

    @property
    def remarks(self) -> str:
        """The caption and the note."""
        return " ".join(filter(None, (self.caption, self.note)))


def styles(run: Run) -> dict[str, Style]:
    """A style for each contestant, the same in all figures of a run."""
    names = [each.name for each in run.contestants if each.name != run.baseline]
    looks = {run.baseline: Style("baseline", marker="D")}
    for number, name in enumerate(names):
        turn = number // _SERIES % len(_HATCHES)
        looks[name] = Style(
            f"series{number % _SERIES + 1}", _HATCHES[turn], _LINES[turn], _MARKERS[number % len(_MARKERS)]
        )
    return looks


def log_ticks(low: float, high: float) -> list[float]:
    """Round values between two positive ones, at least two, for a logarithmic axis."""
    import math

    from matplotlib.ticker import MaxNLocator

    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5)):
        ticks = [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]
        if len(ticks) >= 3:
            return ticks
    return [float(tick) for tick in MaxNLocator(4).tick_values(low, high) if low <= tick <= high]


def set_log(axes: Axes, which: str, low: float, high: float) -> None:
    """Make an axis (``x`` or ``y``) logarithmic with plain numbers at its ticks."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    (axes.set_xlim if which == "x" else axes.set_ylim)(low, high)
    axis.set_major_locator(FixedLocator(log_ticks(low, high)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def error_bars(axes: Axes, x: Sequence[float], ratios: Sequence[tuple[float, float, float]]) -> None:
    """Vertical bars from low to high around values."""
    below = [max(0.0, value - low) for value, low, _ in ratios]
    above = [max(0.0, high - value) for value, _, high in ratios]
    axes.errorbar(
        x,
        [value for value, _, _ in ratios],
        yerr=[below, above],
        fmt="none",
        ecolor=LIGHT["ink"],
        elinewidth=0.8,
        capsize=1.6,
        capthick=0.8,
    )


def value_label(axes: Axes, x: float, y: float, text: str) -> None:
    """A number above a bar, legible in front of an error bar."""
    paper = {"facecolor": LIGHT["paper"], "edgecolor": "none", "pad": 0.6}
    axes.text(x, y, text, ha="center", va="bottom", fontsize=7, bbox=paper)
