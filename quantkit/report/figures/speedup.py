"""Speed-up over the baseline: bars for each network and batch size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Optional

from quantkit.benchmark.results.statistics import Metric
from quantkit.report.page.figure import LIGHT, Entry, Figure, Panel, Style, error_bars, styles, value_label
from quantkit.report.study.summary import Row, Study
from quantkit.report.study.words import bounded, factor, listed, ratio_text, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BASELINE = Style("ink", line="--")
# An interval longer than this many times the tallest bar is cut, since it would flatten all bars.
_HEADROOM = 1.6
# With more bars than these there is no room for a number on each.
_NUMBERED_BARS = 8


@dataclass(frozen=True)
class _Group:
    """Adjacent bars, one for each contestant; None if there is no ratio."""

    label: str
    rows: tuple[Optional[Row], ...]


def figure(study: Study, metric: Metric) -> Optional[Figure]:
    """The bars of one metric; None if nothing has a ratio.

    Throughput is that of the cells measured for it; latency is that of all cells, since every request is timed.
    """
    rows = {row.key: row for row in study.rows if metric in row.speedups and metric in ("latency", row.metric)}
    names = [name for name in study.challengers if any(key[2] == name for key in rows)]
    if not rows:
        return None
    places = list(dict.fromkeys(key[:2] for key in rows))
    networks = list(dict.fromkeys(network for network, _ in places))
    if len(places) == len(networks):
        label = partial(_network_label, alone=len(places) == 1)
        grouped = {"": [_group(rows, place, names, label(*place)) for place in places]}
    else:
        grouped = {
            network: [_group(rows, place, names, str(place[1])) for place in places if place[0] == network]
            for network in networks
        }
    look = styles(study.run)
    tallest = max(1.0, *(row.speedups[metric].value for row in rows.values()))
    top = min(1.06 * max(_reach(row, metric) for row in rows.values()), _HEADROOM * tallest)
    panels = tuple(
        Panel(
            title,
            _alternative(title, groups, metric, study.run.baseline),
            partial(_draw, groups=groups, names=names, look=look, metric=metric, top=top, by_batch=bool(title)),
            *_size(groups, len(names), bool(title)),
        )
        for title, groups in grouped.items()
    )
    legend = [Entry(name, look[name], "bar") for name in names]
    legend.append(Entry(f"{study.run.baseline} = 1", _BASELINE, "line"))
    return Figure(
        metric,
        f"Speed-up in {metric} over {study.run.baseline}",
        _caption(study, metric, list(rows.values()), top),
        tuple(legend),
        panels,
        study.weights_note(networks),
    )


def _caption(study: Study, metric: Metric, rows: Sequence[Row], top: float) -> str:
    meaning = (
        "Items per second of all instances together"
        if metric == "throughput"
        else "Mean duration of a request, averaged over instances"
    )
    text = f"{meaning}, relative to {study.run.baseline}; higher is better. Thin bars are 95 % intervals."
    if any(_reach(row, metric) > top for row in rows):
        text += " An interval that leaves the figure stands in the table."
    return text


def _group(
    rows: Mapping[tuple[str, int, str], Row], place: tuple[str, int], names: Sequence[str], label: str
) -> _Group:
    return _Group(label, tuple(rows.get((*place, name)) for name in names))


def _network_label(network: str, batch: int, alone: bool) -> str:
    return f"{shortened(network, 40 if alone else 18)}\nbatch {batch}"


def _reach(row: Row, metric: Metric) -> float:
    ratio = row.speedups[metric]
    return max(ratio.high if bounded(ratio) else ratio.value, 1.0)


def _size(groups: Sequence[_Group], series: int, by_batch: bool) -> tuple[float, float]:
    if by_batch:
        return 3.5, 2.3
    return min(7.2, max(3.5, 0.9 + len(groups) * max(0.9, 0.3 * series))), 2.6


def _draw(
    axes: Axes,
    groups: Sequence[_Group],
    names: Sequence[str],
    look: Mapping[str, Style],
    metric: Metric,
    top: float,
    by_batch: bool,
) -> None:
    width = min(0.8 / len(names), 0.36)
    numbered = len(groups) * len(names) <= _NUMBERED_BARS
    for place, name in enumerate(names):
        offset = (place - (len(names) - 1) / 2) * width
        style = look[name]
        for number, group in enumerate(groups):
            row, x = group.rows[place], number + offset
            if row is None:
                axes.text(x, 0.02 * top, "-", ha="center", color=LIGHT["muted"])
                continue
            ratio = row.speedups[metric]
            axes.bar(x, ratio.value, 0.92 * width, facecolor=style.value, hatch=style.hatch)
            if bounded(ratio):
                error_bars(axes, [x], [(ratio.value, ratio.low, ratio.high)])
            if numbered:
                summit = ratio.high if bounded(ratio) else ratio.value
                value_label(axes, x, min(summit, 0.97 * top) + 0.015 * top, factor(ratio.value))
    axes.axhline(1, color=LIGHT["ink"], linewidth=0.9, linestyle="--")
    axes.set_ylim(0, 1.05 * top)
    axes.set_xlim(-0.6, len(groups) - 0.4)
    axes.set_xticks(range(len(groups)), [group.label for group in groups])
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("speed-up")
    if by_batch:
        axes.set_xlabel("batch size")


def _alternative(title: str, groups: Sequence[_Group], metric: Metric, baseline: str) -> str:
    parts = []
    for group in groups:
        texts = [f"{row.contestant} {ratio_text(row.speedups[metric])}" for row in group.rows if row]
        where = f"batch size {group.label}" if title else group.label.replace("\n", ", ")
        parts.append(f"{where}: {listed(texts)}")
    subject = f" of {title}" if title else ""
    return f"Bar chart: speed-up{subject} in {metric} over {baseline}. {'; '.join(parts)}."
