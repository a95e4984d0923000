"""Throughput against placement, with the ideal line."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Optional

from quantkit.report.page.figure import Entry, Figure, Panel, Style, error_bars
from quantkit.report.study.scaling import Scaling, scalings
from quantkit.report.study.summary import Study
from quantkit.report.study.words import TIMES, bounded, counted, factor, ratio_text, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MEASURED, _IDEAL = Style("series1"), Style("muted", line="--")
# An interval longer than this many times its value is cut, since it would flatten the line.
_HEADROOM = 1.6


def figure(study: Study) -> Optional[Figure]:
    """A panel for each network and variant; None if no placement was varied."""
    all_scalings = scalings(study)
    if not all_scalings:
        return None
    subjects = dict.fromkeys((each.network, each.build, each.variant) for each in all_scalings)
    several = len({subject[1:] for subject in subjects}) > 1
    panels = []
    for subject in subjects:
        candidates = [each for each in all_scalings if (each.network, each.build, each.variant) == subject]
        shown = max(candidates, key=lambda each: (len(each.points), each.batch))
        variant = f", {shown.variant} on {shown.build}" if several else ""
        panels.append(
            Panel(
                f"{shown.network}, batch {shown.batch}{variant}",
                _alternative(shown),
                partial(_draw, scaling=shown),
                width=min(7.2, max(3.5, 0.7 + 0.5 * len(shown.points))),
                height=2.5,
            )
        )
    return Figure(
        "scaling",
        "Scaling over instances",
        "Throughput under each placement, relative to the one with the fewest threads, with 95 % intervals. The ideal "
        "line is what there would be if every thread gave as much as in that one. Each network is shown at the batch "
        "size that was measured under the most placements.",
        (Entry("measured", _MEASURED, "marker"), Entry("ideal", _IDEAL, "line")),
        tuple(panels),
        study.weights_note(each.network for each in all_scalings),
    )


def _draw(axes: Axes, scaling: Scaling) -> None:
    points = scaling.points
    ratios = [point.speedup for point in points]
    places = range(len(points))
    axes.plot(
        places,
        [point.ideal for point in points],
        color=_IDEAL.value,
        linestyle=_IDEAL.line,
        linewidth=1,
        drawstyle="steps-mid",
    )
    axes.plot(places, [each.value for each in ratios], marker="o", markersize=4, color=_MEASURED.value, linewidth=1.4)
    sure = [(place, each) for place, each in zip(places, ratios) if bounded(each)]
    error_bars(axes, [place for place, _ in sure], [(each.value, each.low, each.high) for _, each in sure])
    top = 1.08 * max(*(point.ideal for point in points), *(min(each.high, _HEADROOM * each.value) for each in ratios))
    for place, each in zip(places, ratios):
        low, high = (each.low, min(each.high, 0.94 * top)) if bounded(each) else (each.value, each.value)
        # Near the axis there is only room above.
        above = low < 0.15 * top
        axes.annotate(
            factor(each.value),
            (place, high if above else low),
            (0, 4 if above else -10),
            textcoords="offset points",
            ha="center",
            fontsize=7,
        )
    axes.set_ylim(0, top)
    axes.set_xlim(-0.4, len(points) - 0.6)
    axes.set_xticks(
        places,
        [
            f"{shortened(point.policy, 12)}\n{point.instances} {TIMES} {point.threads / point.instances:g}"
            for point in points
        ],
    )
    axes.set_xlabel(f"placement: policy, instances {TIMES} threads of each")
    axes.set_ylabel("times the smallest")
    axes.grid(visible=False, axis="x")


def _alternative(scaling: Scaling) -> str:
    points = "; ".join(
        f"{point.policy} ({counted(point.instances, 'instance')}, {counted(point.threads, 'thread')}) "
        f"{ratio_text(point.speedup)}, ideal {factor(point.ideal)}"
        for point in scaling.points
    )
    subject = f"{scaling.network} at batch size {scaling.batch}, {scaling.variant} on {scaling.build}"
    return f"Scaling of {subject}: {points}."
