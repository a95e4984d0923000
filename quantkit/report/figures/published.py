"""Published speed-ups beside ours, each on its own axis: those of larger machines would flatten our bars."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Optional

from quantkit.benchmark.results.results import PublishedSource
from quantkit.benchmark.results.statistics import Metric
from quantkit.report.page.figure import LIGHT, Entry, Figure, Panel, Style
from quantkit.report.study.machines import machine_text, own_machine, published_figure, source_of
from quantkit.report.study.summary import METRICS, Row, Study
from quantkit.report.study.words import TIMES, bounded, factor, listed, ratio_text, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OURS, _PUBLISHED = Style("series1"), Style("muted", hatch="////")
# Left and width of each half, as shares of the panel.
_LEFT, _RIGHT = (0.0, 0.43), (0.5, 0.38)


def figure(study: Study) -> Optional[Figure]:
    """A panel for each metric, contestant and machine with published speed-ups; None if there are none.

    A panel has a row for each network at the smallest and the largest batch size.
    """
    panels = tuple(
        _panel(study, metric, source, _ends(rows))
        for metric in METRICS
        for name in study.challengers
        for source, rows in _by_source(study, metric, name).items()
    )
    if not panels:
        return None
    return Figure(
        "published",
        "Published speed-ups beside ours",
        "Two machines, so two axes: the percentage says which share of the published speed-up this machine reaches. "
        "At the smallest and the largest batch size, in parentheses that of the published figure where it is another; "
        "the tables have all. Thin bars are our 95 % intervals.",
        (Entry("this machine", _OURS, "bar"), Entry("published", _PUBLISHED, "bar")),
        panels,
        study.weights_note(row.network for row in study.rows if any(_compared(row, metric) for metric in METRICS)),
    )


def _compared(row: Row, metric: Metric) -> bool:
    return metric in row.published and metric in row.speedups


def _by_source(study: Study, metric: Metric, contestant: str) -> dict[Optional[PublishedSource], list[Row]]:
    """A contestant's rows with published speed-ups, by where these are from."""
    sources: dict[Optional[PublishedSource], list[Row]] = {}
    for row in study.rows:
        if row.contestant == contestant and _compared(row, metric):
            figure = published_figure(study.run, row, metric, "speedup")
            sources.setdefault(source_of(study.run, figure), []).append(row)
    return sources


def _ends(rows: Sequence[Row]) -> list[Row]:
    """The rows of the smallest and the largest batch size of each network."""
    ends = {}
    for row in rows:
        batches = [other.batch for other in rows if other.network == row.network]
        if row.batch in (min(batches), max(batches)):
            ends[row.key] = row
    return list(ends.values())


def _panel(study: Study, metric: Metric, source: Optional[PublishedSource], rows: Sequence[Row]) -> Panel:
    there = "published" if source is None else machine_text(source.machine)
    return Panel(
        f"{shortened(rows[0].contestant, 24)}: {metric}, times {study.run.baseline}",
        _alternative(rows, metric),
        partial(
            _draw,
            rows=rows,
            metric=metric,
            titles=(own_machine(study.run), there),
            names=[_name(study, row, metric) for row in rows],
        ),
        width=6.4,
        height=0.9 + 0.24 * len(rows),
    )


def _name(study: Study, row: Row, metric: Metric) -> str:
    """The network and the batch size, and that of the published figure where it is another."""
    figure = published_figure(study.run, row, metric, "speedup")
    own = f" ({figure.own_batch})" if figure is not None and figure.own_batch else ""
    return f"{shortened(row.network, 18)}, batch {row.batch}{own}"


def _draw(axes: Axes, rows: Sequence[Row], metric: Metric, titles: tuple[str, str], names: Sequence[str]) -> None:
    axes.set_axis_off()
    ours = [row.speedups[metric] for row in rows]
    published = [row.published[metric] for row in rows]
    values = [ratio.value for ratio in ours]
    ends = [ratio.high if bounded(ratio) else ratio.value for ratio in ours]
    left = _half(axes, _LEFT, titles[0], values, ends, _OURS)
    left.set_yticks(range(len(rows)), names)
    for place, ratio in enumerate(ours):
        if bounded(ratio):
            left.plot([ratio.low, ratio.high], [place, place], color=LIGHT["ink"], linewidth=0.8)
    right = _half(axes, _RIGHT, titles[1], published, published, _PUBLISHED)
    right.set_yticks([])
    for place, (value, other) in enumerate(zip(values, published)):
        right.annotate(
            f"{value / other:.0%}", (1, place), (34, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha="right", va="center", fontsize=8,
        )  # fmt: skip


def _half(
    axes: Axes,
    place: tuple[float, float],
    title: str,
    values: Sequence[float],
    ends: Sequence[float],
    style: Style,
) -> Axes:
    """Bars of values, which are written beside the ends of bars and intervals."""
    half: Axes = axes.inset_axes((place[0], 0, place[1], 1))
    half.barh(
        range(len(values)), values, height=0.62, color=style.value, hatch=style.hatch, edgecolor=LIGHT["paper"],
        linewidth=0,
    )  # fmt: skip
    for row, (value, end) in enumerate(zip(values, ends)):
        half.annotate(
            f"{TIMES}{factor(value)}", (end, row), (4, 0), textcoords="offset points", va="center", fontsize=7,
        )  # fmt: skip
    half.set_xlim(0, max(ends) * 1.25)
    half.set_ylim(len(values) - 0.4, -0.6)
    half.set_xlabel(title, fontsize=8, loc="left")
    half.tick_params(axis="y", length=0)
    half.grid(visible=False, axis="y")
    for side in ("top", "right"):
        half.spines[side].set_visible(False)
    return half


def _alternative(rows: Sequence[Row], metric: Metric) -> str:
    parts = [
        f"{row.network} at batch size {row.batch} {ratio_text(row.speedups[metric])}, published "
        f"{factor(row.published[metric])}"
        for row in rows
    ]
    return f"Two bar charts of speed-ups in {metric} of {rows[0].contestant}: {listed(parts)}."
