"""Latency under load: the p99 at each tested rate of requests, with the bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Optional

from quantkit.benchmark.results.results import Cell
from quantkit.report.page.figure import LIGHT, Entry, Figure, Panel, Style, set_log, styles
from quantkit.report.study.summary import Study
from quantkit.report.study.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BOUND = Style("ink", line="--")


def figure(study: Study) -> Optional[Figure]:
    """One panel for each network and batch size served; None if nothing was."""
    cells = [cell for cell in study.served if cell.server and cell.server.trials]
    if not cells:
        return None
    look = styles(study.run)
    panels = []
    for network, batch in dict.fromkeys((cell.network, cell.batch) for cell in cells):
        shown = [cell for cell in cells if (cell.network, cell.batch) == (network, batch)]
        panels.append(
            Panel(
                f"{network}, batch {batch}",
                _alternative(shown),
                partial(_draw, cells=shown, look=look),
                height=2.5,
            )
        )
    names = {cell.contestant.name for cell in cells}
    legend = [Entry(each.name, look[each.name], "marker") for each in study.run.contestants if each.name in names]
    legend.append(Entry("bound", _BOUND, "line"))
    if any(not trial.valid for cell in cells if cell.server for trial in cell.server.trials):
        legend.append(Entry("not valid (LoadGen)", Style("ink"), "hollow"))
    return Figure(
        "server",
        "Latency under load",
        "Requests arrive at random times at a given rate; the p99 of their latency must stay within the bound. "
        "Hollow markers are runs that are not valid by LoadGen's own rules.",
        tuple(legend),
        tuple(panels),
        study.weights_note(cell.network for cell in cells),
    )


def _draw(axes: Axes, cells: Sequence[Cell], look: Mapping[str, Style]) -> None:
    servers = [(look[cell.contestant.name], cell.server) for cell in cells if cell.server]
    values = [value for _, server in servers for value in (server.bound, *(trial.p99 for trial in server.trials))]
    for bound in {server.bound for _, server in servers}:
        axes.axhline(bound, color=_BOUND.value, linestyle=_BOUND.line, linewidth=1)
    for style, server in servers:
        trials = sorted(server.trials, key=lambda trial: trial.rate)
        axes.plot([trial.rate for trial in trials], [trial.p99 for trial in trials], color=style.value, linewidth=1)
        for trial in trials:
            face = style.value if trial.valid else LIGHT["paper"]
            axes.plot(trial.rate, trial.p99, style.marker, color=style.value, markersize=4.5, markerfacecolor=face)
    set_log(axes, "y", min(values) / 1.4, max(values) * 1.4)
    axes.set_xlim(left=0)
    axes.set_xlabel("requests per second")
    axes.set_ylabel("p99, ms")


def _alternative(cells: Sequence[Cell]) -> str:
    parts = []
    for cell in cells:
        if cell.server:
            trials = ", ".join(
                f"{number(trial.rate)} per second: {number(trial.p99)} ms" for trial in cell.server.trials
            )
            parts.append(f"{cell.contestant.name} (bound {number(cell.server.bound)} ms) {trials}")
    return f"p99 latency of {cells[0].network} by rate. {'. '.join(parts)}."
