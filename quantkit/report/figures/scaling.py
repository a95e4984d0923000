"""Throughput against placement, with the ideal line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Optional

from quantkit.report.figure import LIGHT, Entry, Figure, Panel, Style, error_bars
from quantkit.report.scaling import Scaling, scalings
from quantkit.report.summary import Study
from quantkit.report.words import TIMES, bounded, counted, factor, ratio_text, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_IDEAL = Style("muted", line="--")


def figure(study: Study) -> Optional[Figure]:
    """One panel for each network, with a line for each variant; None where no placement was varied."""
    found = scalings(study)
    if not found:
        return None
    variants = list(dict.fromkeys((each.build, each.variant) for each in found))
    look = {
        variant: Style(f"series{number % 6 + 1}", marker="os^vPX"[number % 6])
        for number, variant in enumerate(variants)
    }
    panels = []
    for network in dict.fromkeys(each.network for each in found):
        batch = max((len(each.points), each.batch) for each in found if each.network == network)[1]
        shown = [each for each in found if (each.network, each.batch) == (network, batch)]
        panels.append(
            Panel(
                f"{study.flagged(network)}, batch {batch}",
                _alternative(shown),
                partial(_draw, shown=shown, look=look),
                width=min(7.2, max(3.5, 0.7 + 0.5 * max(len(each.points) for each in shown))),
                height=2.5,
            )
        )
    legend = [Entry(f"{variant} on {build}", style, "marker") for (build, variant), style in look.items()]
    return Figure(
        "scaling",
        "Scaling over instances",
        "Throughput under each placement, relative to the one with the fewest cores, with 95 % intervals. The ideal "
        "line is what there would be if every core gave as much as in that one. Each network is shown at the batch "
        "size that was measured under the most placements.",
        (*legend, Entry("ideal", _IDEAL, "line")),
        tuple(panels),
    )


def _draw(axes: Axes, shown: Sequence[Scaling], look: Mapping[tuple[str, str], Style]) -> None:
    most = max(shown, key=lambda each: len(each.points))
    places = [(point.policy, point.instances, point.cores) for point in most.points]
    ideal = [point.ideal for point in most.points]
    axes.plot(range(len(places)), ideal, color=_IDEAL.value, linestyle=_IDEAL.line, linewidth=1, drawstyle="steps-mid")
    top = max(ideal)
    for number, scaling in enumerate(shown):
        style = look[scaling.build, scaling.variant]
        shift = 0.08 * (number - (len(shown) - 1) / 2)
        points = [
            (places.index(key), point)
            for point in scaling.points
            if (key := (point.policy, point.instances, point.cores)) in places
        ]
        x = [place + shift for place, _ in points]
        values = [point.speedup.value for _, point in points]
        axes.plot(x, values, marker=style.marker, markersize=4, color=style.value, linewidth=1.4)
        sure = [(at, point.speedup) for at, (_, point) in zip(x, points) if bounded(point.speedup)]
        error_bars(axes, [at for at, _ in sure], [(each.value, each.low, each.high) for _, each in sure])
        top = max(top, *values, *(each.high for _, each in sure))
        if len(shown) == 1:
            for at, (_, point) in zip(x, points):
                foot = point.speedup.low if bounded(point.speedup) else point.speedup.value
                axes.annotate(
                    factor(point.speedup.value),
                    (at, foot),
                    (0, -10),
                    textcoords="offset points",
                    ha="center",
                    fontsize=7,
                )
    axes.set_ylim(0, 1.08 * top)
    axes.set_xlim(-0.4, len(places) - 0.6)
    axes.set_xticks(
        range(len(places)),
        [f"{shortened(policy, 12)}\n{instances} {TIMES} {cores / instances:g}" for policy, instances, cores in places],
    )
    axes.set_xlabel(f"placement: policy, instances {TIMES} cores of each")
    axes.set_ylabel("times the smallest")
    axes.grid(visible=False, axis="x")
    axes.spines["left"].set_color(LIGHT["muted"])


def _alternative(shown: Sequence[Scaling]) -> str:
    lines = []
    for scaling in shown:
        points = "; ".join(
            f"{point.policy} ({counted(point.instances, 'instance')}, {counted(point.cores, 'core')}) "
            f"{ratio_text(point.speedup)}, ideal {factor(point.ideal)}"
            for point in scaling.points
        )
        lines.append(f"{scaling.variant} on {scaling.build}: {points}")
    first = shown[0]
    return f"Scaling of {first.network} at batch size {first.batch}. {'. '.join(lines)}."
