"""Published speed-ups beside ours, in a separate figure: figures of larger machines would flatten our bars."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Optional

from quantkit.benchmark.results.statistics import Metric
from quantkit.report.page.figure import LIGHT, Entry, Figure, Panel, Style, set_log
from quantkit.report.study.summary import METRICS, Row, Study
from quantkit.report.study.words import TIMES, bounded, factor, listed, ratio_text, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OURS, _PUBLISHED = Style("series1"), Style("ink", marker="D")


def figure(study: Study) -> Optional[Figure]:
    """A panel for each metric, a row for each cell with a measured and a published speed-up; None if there is none."""
    compared: dict[Metric, list[Row]] = {
        metric: [row for row in study.rows if metric in row.published and metric in row.speedups] for metric in METRICS
    }
    panels = tuple(
        Panel(
            f"{metric.capitalize()}, times {study.run.baseline}",
            _alternative(rows, metric),
            partial(_draw, rows=rows, metric=metric),
            width=5.2,
            height=0.8 + 0.28 * len(rows),
        )
        for metric, rows in compared.items()
        if rows
    )
    if not panels:
        return None
    return Figure(
        "published",
        "Published speed-ups beside ours",
        "Published figures were measured on other machines, so the two tell how far these differ, not which is right. "
        "The axis is logarithmic; thin bars are our 95 % intervals.",
        (Entry("this machine", _OURS, "marker"), Entry("published", _PUBLISHED, "hollow")),
        panels,
        study.weights_note(row.network for rows in compared.values() for row in rows),
    )


def _draw(axes: Axes, rows: Sequence[Row], metric: Metric) -> None:
    values = [value for row in rows for value in (row.speedups[metric].value, row.published[metric])]
    set_log(axes, "x", min(values) / 1.5, max(values) * 1.5)
    for place, row in enumerate(rows):
        ours, published = row.speedups[metric], row.published[metric]
        axes.plot([ours.value, published], [place, place], color=LIGHT["grid"], linewidth=2, zorder=1)
        if bounded(ours):
            axes.plot([ours.low, ours.high], [place, place], color=LIGHT["ink"], linewidth=0.8)
        axes.plot(ours.value, place, _OURS.marker, color=_OURS.value, markersize=5.5)
        axes.plot(
            published, place, _PUBLISHED.marker, color=LIGHT["ink"], markersize=4.5, markerfacecolor=LIGHT["paper"]
        )
        for value in (ours.value, published):
            axes.annotate(
                f"{TIMES}{factor(value)}", (value, place), (0, 5), textcoords="offset points", ha="center", fontsize=7
            )
    axes.set_ylim(len(rows) - 0.5, -0.7)
    axes.set_yticks(range(len(rows)), [_label(row) for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("speed-up")


def _label(row: Row) -> str:
    return f"{shortened(row.contestant, 16)}, {shortened(row.network, 18)}, batch {row.batch}"


def _alternative(rows: Sequence[Row], metric: Metric) -> str:
    parts = [
        f"{row.contestant} on {row.network} at batch size {row.batch} {ratio_text(row.speedups[metric])}, published "
        f"{factor(row.published[metric])}"
        for row in rows
    ]
    return f"Dot plot of speed-ups in {metric}: {listed(parts)}."
