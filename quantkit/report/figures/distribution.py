"""The cumulative distribution of latency over requests."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Optional

import numpy as np

from quantkit.benchmark.results.statistics import latencies
from quantkit.report.page.figure import LIGHT, Entry, Figure, Panel, Style, set_log, styles
from quantkit.report.study.summary import PERCENTILES, Study
from quantkit.report.study.words import listed, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More steps than these are indistinguishable at the size of a panel.
_STEPS = 240
_MARKS = ("o", "s", "^")


def figure(study: Study) -> Optional[Figure]:
    """One panel for each network at its smallest batch size; None if nothing was timed."""
    panels = []
    names: set[str] = set()
    look = styles(study.run)
    for network in study.networks:
        batch = min(row.batch for row in study.rows if row.network == network.name)
        times = {key[2]: latencies(cell) for key, cell in study.cells.items() if key[:2] == (network.name, batch)}
        names |= times.keys()
        panels.append(
            Panel(
                f"{network.name}, batch {batch}",
                _alternative(network.name, batch, times),
                partial(_draw, times=times, look=look),
            )
        )
    if not panels:
        return None
    marks = [
        Entry(f"p{percentile}", Style("ink", marker=mark), "hollow") for percentile, mark in zip(PERCENTILES, _MARKS)
    ]
    lines = [Entry(each.name, look[each.name], "line") for each in study.run.contestants if each.name in names]
    return Figure(
        "distribution",
        "Distribution of latency",
        "The share of requests, of all rounds and instances, that was served within a time; further left is better. "
        "Time is logarithmic. Each network is shown at its smallest batch size.",
        (*lines, *marks),
        tuple(panels),
        study.weights_note(network.name for network in study.networks),
    )


def _draw(axes: Axes, times: Mapping[str, np.ndarray], look: Mapping[str, Style]) -> None:
    low = min(float(values.min()) for values in times.values())
    high = max(float(values.max()) for values in times.values())
    set_log(axes, "x", low / 1.15, high * 1.15)
    for name, values in times.items():
        style = look[name]
        shares = np.arange(1, len(values) + 1) / len(values)
        ordered = np.sort(values)
        if len(values) > _STEPS:
            chosen = np.unique(np.linspace(0, len(values) - 1, _STEPS).round().astype(int))
            ordered, shares = ordered[chosen], shares[chosen]
        axes.step(
            np.concatenate([ordered[:1], ordered]),
            np.concatenate([[0], shares]),
            where="post",
            color=style.value,
            linestyle=style.line,
            linewidth=1.3,
        )
        for percentile, mark in zip(PERCENTILES, _MARKS):
            axes.plot(
                np.percentile(values, percentile),
                percentile / 100,
                mark,
                markersize=4.2,
                color=style.value,
                markerfacecolor=LIGHT["paper"],
                zorder=3,
            )
    axes.set_ylim(0, 1.04)
    axes.set_yticks([0, 0.5, 0.9, 0.99], ["0 %", "50 %", "90 %", "99 %"])
    axes.set_xlabel("ms per request")
    axes.set_ylabel("requests served")


def _alternative(network: str, batch: int, times: Mapping[str, np.ndarray]) -> str:
    parts = []
    for name, values in times.items():
        marks = [f"p{percentile} {number(float(np.percentile(values, percentile)))} ms" for percentile in PERCENTILES]
        parts.append(f"{name} {listed(marks)}")
    return f"Cumulative distribution of the latency of {network} at batch size {batch}: {'; '.join(parts)}."
