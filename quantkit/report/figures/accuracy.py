"""Accuracy of each network beside its speed-up in INT8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Optional

from quantkit.report.page.figure import LIGHT, Entry, Figure, Panel, Style
from quantkit.report.study.accuracy import Graded, graded
from quantkit.report.study.summary import Study
from quantkit.report.study.words import TIMES, factor, listed, ratio_text, shortened
from quantkit.units import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NO_SHARE_OF_IMAGES = {"cosine"}


def figure(study: Study) -> Optional[Figure]:
    """A row for each network with trained weights and accuracy; None if there is none or no INT8 has a speed-up."""
    trained = [each for each in graded(study) if each.weights != "random"]
    rows = [each for each in trained if each.accuracy.keys() - _NO_SHARE_OF_IMAGES]
    if not rows:
        return None
    measures = list(dict.fromkeys(name for each in rows for name in each.accuracy if name not in _NO_SHARE_OF_IMAGES))
    if not any(each.speedup for each in rows):
        return None
    look = {name: Style(f"series{number % 6 + 1}", marker="osD^vP"[number % 6]) for number, name in enumerate(measures)}
    return Figure(
        "accuracy",
        "Accuracy beside speed",
        "How the INT8 networks agree with FP32, as far as it was measured, beside the speed-up over "
        f"{study.run.baseline} at the largest batch size that has one. "
        "Networks with random weights have no place here.",
        tuple(Entry(name, look[name], "marker") for name in measures),
        (
            Panel(
                "",
                _alternative(rows, study.run.baseline),
                partial(_draw, rows=rows, look=look),
                width=3.8,
                height=0.75 + 0.3 * len(rows),
            ),
        ),
    )


def _draw(axes: Axes, rows: Sequence[Graded], look: Mapping[str, Style]) -> None:
    for place, row in enumerate(rows):
        for name in row.accuracy.keys() & look.keys():
            style = look[name]
            axes.plot(
                100 * row.accuracy[name],
                place,
                style.marker,
                color=style.value,
                markersize=5.5,
                markeredgecolor=LIGHT["paper"],
                markeredgewidth=0.6,
                clip_on=False,
            )
        if row.speedup:
            axes.text(
                1.02, place, f"{TIMES} {factor(row.speedup.value)}", transform=axes.get_yaxis_transform(), va="center"
            )
    axes.text(
        1.02, -0.85, "speed-up", transform=axes.get_yaxis_transform(), va="center", color=LIGHT["muted"], fontsize=7.5
    )
    shares = [100 * share for row in rows for name, share in row.accuracy.items() if name in look]
    margin = max(0.4, 0.06 * (max(shares) - min(shares)))
    axes.set_xlim(min(shares) - margin, min(max(shares) + margin, 100))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [shortened(row.network, 26) for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("% of the images")


def _alternative(rows: Sequence[Graded], baseline: str) -> str:
    parts = []
    for row in rows:
        figures = [f"{name} {percent(share)}" for name, share in row.accuracy.items()]
        parts.append(f"{row.network}: {listed(figures)}; speed-up over {baseline} {ratio_text(row.speedup, 'unknown')}")
    return f"Dot plot of accuracy. {'. '.join(parts)}."
