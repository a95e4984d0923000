"""Throughput against latency: every measurement of tuning, and the front of those that no other one beats."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from quantkit.backends.registry import DEPLOYED
from quantkit.deployment.tuning.contestant import Contestant
from quantkit.deployment.tuning.point import Point
from quantkit.deployment.tuning.tuned import Tuned
from quantkit.report.page.figure import LIGHT, Entry, Figure, Panel, Style, set_log
from quantkit.report.study.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = {
    name: Style(f"series{place}", marker=marker) for place, (name, marker) in enumerate(zip(DEPLOYED, "os^"), start=1)
}
_FRONT, _WINNER, _BOUND = Style("muted"), Style("ink", marker="D"), Style("ink", line="--")

Measured = tuple[Contestant, Point]


def measured(tuned: Tuned) -> list[Measured]:
    """Every measurement of deployments, and of engines by themselves."""
    return [(trial.contestant, point) for trial in tuned.trials for point in trial.points]


def front(points: Sequence[Measured]) -> list[Measured]:
    """Those that no other one beats in both images per second and p99, by ascending throughput."""
    kept: list[Measured] = []
    best = float("inf")
    for contestant, point in sorted(points, key=lambda each: (-each[1].rate, each[1].p99)):
        if point.p99 < best:
            kept.append((contestant, point))
            best = point.p99
    return kept[::-1]


def figure(tuned: Tuned) -> Figure:
    """One panel with all measurements."""
    points = measured(tuned)
    engines = {contestant.engine for contestant, _ in points}
    legend = [Entry(DEPLOYED[name].title, _STYLES[name], "marker") for name in DEPLOYED if name in engines]
    if any(contestant.own for contestant, _ in points):
        legend.append(Entry("the engine by itself", Style("muted"), "hollow"))
    legend += [Entry("front", _FRONT, "line"), Entry("chosen", _WINNER, "marker")]
    if tuned.goal.p99 is not None:
        legend.append(Entry("bound", _BOUND, "line"))
    alternative = ". ".join(
        f"{contestant.name}: {number(point.rate)} images/s at a p99 of {number(point.p99)} ms"
        for contestant, point in front(points)
    )
    panel = Panel("", f"The front: {alternative}.", partial(_draw, tuned=tuned), 7.0, 3.6)
    return Figure(
        "pareto",
        "Throughput against latency",
        "Each mark is a deployment under a load; to the right and below is better. Requests of several images take "
        "longer than those of one.",
        tuple(legend),
        (panel,),
    )


def _draw(axes: Axes, tuned: Tuned) -> None:
    points = measured(tuned)
    for contestant, point in points:
        style = _STYLES[contestant.engine]
        face = LIGHT["paper"] if contestant.own else style.value
        axes.plot(
            point.rate, point.p99, style.marker, color=style.value, markersize=4, markerfacecolor=face, linestyle="none"
        )
    best = front(points)
    axes.plot([point.rate for _, point in best], [point.p99 for _, point in best], color=_FRONT.value, linewidth=1)
    chosen = tuned.winner.points[0].load
    won = next(
        (point for contestant, point in points
         if contestant.key == tuned.winner.contestant.key and point.load == chosen), tuned.winner.points[0]
    )  # fmt: skip
    axes.plot(won.rate, won.p99, _WINNER.marker, color=_WINNER.value, markersize=7, markerfacecolor="none")
    if tuned.goal.p99 is not None:
        axes.axhline(tuned.goal.p99, color=_BOUND.value, linestyle=_BOUND.line, linewidth=1)
    times = [point.p99 for _, point in points]
    set_log(axes, "y", min(times) / 1.4, max(times) * 1.4)
    axes.set_xlim(left=0)
    axes.set_xlabel("images per second")
    axes.set_ylabel("p99, ms")
