"""Published figures beside ours, each on its own axis: those of larger machines would flatten our bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Optional

from quantkit.benchmark.results.results import Published, PublishedSource
from quantkit.benchmark.results.statistics import Metric
from quantkit.report.page.figure import LIGHT, Entry, Figure, Panel, Style
from quantkit.report.study.machines import machine_text, own_machine, published_figure, source_of
from quantkit.report.study.summary import METRICS, Row, Study, has_published_speedup, items, published_throughputs
from quantkit.report.study.words import TIMES, bounded, factor, listed, number, ratio_text, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OURS, _PUBLISHED = Style("series1"), Style("muted", hatch="////")
# Left and width of each half, as shares of the panel.
_LEFT, _RIGHT = (0.0, 0.43), (0.5, 0.38)


@dataclass(frozen=True)
class _Beside:
    """One of our figures, with its interval and in words, beside the published one."""

    row: Row
    ours: float
    interval: Optional[tuple[float, float]]
    text: str
    published: float
    figure: Optional[Published]


@dataclass(frozen=True)
class _Quantity:
    """What is compared: its name in titles, how its values are written, and the figures."""

    title: str
    written: Callable[[float], str]
    pairs: tuple[_Beside, ...]


def figure(study: Study) -> Optional[Figure]:
    """A panel for each quantity, contestant and machine with published figures; None if there are none.

    Speed-ups are compared, and throughput where there is no speed-up to compare, as of the baseline. A panel has a row
    for each network at the smallest and the largest batch size.
    """
    quantities = tuple(_quantities(study))
    panels = tuple(
        _panel(study, quantity, source, _ends(pairs))
        for quantity in quantities
        for contestant in study.run.contestants
        for source, pairs in _by_source(study, quantity, contestant.name).items()
    )
    if not panels:
        return None
    return Figure(
        "published",
        "Published figures beside ours",
        "Two machines, so two axes: the percentage says which share of the published figure this machine reaches. "
        "At the smallest and the largest batch size, in parentheses that of the published figure where it is another; "
        "the tables have all. Thin bars are the 95 % intervals of our speed-ups.",
        (Entry("this machine", _OURS, "bar"), Entry("published", _PUBLISHED, "bar")),
        panels,
        study.weights_note(pair.row.network for quantity in quantities for pair in quantity.pairs),
    )


def _quantities(study: Study) -> Iterator[_Quantity]:
    for metric in METRICS:
        speedups = tuple(_speedup(study, row, metric) for row in study.rows if has_published_speedup(row, metric))
        yield _Quantity(f"{metric}, times {study.run.baseline}", lambda value: f"{TIMES}{factor(value)}", speedups)
    published = published_throughputs(study.run)
    rows = [row for row in study.rows if row.key in published and not has_published_speedup(row, row.metric)]
    throughputs = tuple(_throughput(study, row, published[row.key]) for row in rows)
    yield _Quantity(f"{items(study, [row.network for row in rows])}/s", number, throughputs)


def _speedup(study: Study, row: Row, metric: Metric) -> _Beside:
    ratio, figure = row.speedups[metric], published_figure(study.run, row, metric, "speedup")
    interval = (ratio.low, ratio.high) if bounded(ratio) else None
    return _Beside(row, ratio.value, interval, ratio_text(ratio), row.published[metric], figure)


def _throughput(study: Study, row: Row, published: float) -> _Beside:
    figure = published_figure(study.run, row, study.run.scenario, "throughput")
    return _Beside(row, row.throughput, None, number(row.throughput), published, figure)


def _by_source(study: Study, quantity: _Quantity, contestant: str) -> dict[Optional[PublishedSource], list[_Beside]]:
    """A contestant's pairs, by where the published figures are from."""
    sources: dict[Optional[PublishedSource], list[_Beside]] = {}
    for pair in quantity.pairs:
        if pair.row.contestant == contestant:
            sources.setdefault(source_of(study.run, pair.figure), []).append(pair)
    return sources


def _ends(pairs: Sequence[_Beside]) -> list[_Beside]:
    """The pairs of the smallest and the largest batch size of each network."""
    ends = []
    for pair in pairs:
        batches = [other.row.batch for other in pairs if other.row.network == pair.row.network]
        if pair.row.batch in (min(batches), max(batches)):
            ends.append(pair)
    return ends


def _panel(study: Study, quantity: _Quantity, source: Optional[PublishedSource], pairs: Sequence[_Beside]) -> Panel:
    there = "published" if source is None else machine_text(source.machine)
    contestant = pairs[0].row.contestant
    return Panel(
        f"{shortened(contestant, 24)}: {quantity.title}",
        _alternative(quantity, contestant, pairs),
        partial(_draw, quantity=quantity, pairs=pairs, titles=(own_machine(study.run), there)),
        width=6.4,
        height=0.9 + 0.24 * len(pairs),
    )


def _name(pair: _Beside) -> str:
    """The network and the batch size, and that of the published figure where it is another."""
    own = f" ({pair.figure.own_batch})" if pair.figure is not None and pair.figure.own_batch else ""
    return f"{shortened(pair.row.network, 18)}, batch {pair.row.batch}{own}"


def _draw(axes: Axes, quantity: _Quantity, pairs: Sequence[_Beside], titles: tuple[str, str]) -> None:
    axes.set_axis_off()
    ours = [pair.ours for pair in pairs]
    published = [pair.published for pair in pairs]
    ends = [pair.ours if pair.interval is None else pair.interval[1] for pair in pairs]
    written = [quantity.written(value) for value in (*ours, *published)]
    left = _half(axes, _LEFT, titles[0], ours, ends, written[: len(pairs)], _OURS)
    left.set_yticks(range(len(pairs)), [_name(pair) for pair in pairs])
    for place, pair in enumerate(pairs):
        if pair.interval is not None:
            left.plot(pair.interval, [place, place], color=LIGHT["ink"], linewidth=0.8)
    right = _half(axes, _RIGHT, titles[1], published, published, written[len(pairs) :], _PUBLISHED)
    right.set_yticks([])
    for place, pair in enumerate(pairs):
        right.annotate(
            f"{pair.ours / pair.published:.0%}", (1, place), (34, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", ha="right", va="center", fontsize=8,
        )  # fmt: skip


def _half(
    axes: Axes,
    place: tuple[float, float],
    title: str,
    values: Sequence[float],
    ends: Sequence[float],
    texts: Sequence[str],
    style: Style,
) -> Axes:
    """Bars of values, which are written beside the ends of bars and intervals."""
    half: Axes = axes.inset_axes((place[0], 0, place[1], 1))
    half.barh(
        range(len(values)), values, height=0.62, color=style.value, hatch=style.hatch, edgecolor=LIGHT["paper"],
        linewidth=0,
    )  # fmt: skip
    for row, (text, end) in enumerate(zip(texts, ends)):
        half.annotate(text, (end, row), (4, 0), textcoords="offset points", va="center", fontsize=7)
    half.set_xlim(0, max(ends) * 1.25)
    half.set_ylim(len(values) - 0.4, -0.6)
    half.set_xlabel(title, fontsize=8, loc="left")
    half.tick_params(axis="y", length=0)
    half.grid(visible=False, axis="y")
    for side in ("top", "right"):
        half.spines[side].set_visible(False)
    return half


def _alternative(quantity: _Quantity, contestant: str, pairs: Sequence[_Beside]) -> str:
    parts = [
        f"{pair.row.network} at batch size {pair.row.batch} {pair.text}, published {quantity.written(pair.published)}"
        for pair in pairs
    ]
    return f"Two bar charts of {contestant}, {quantity.title}: {listed(parts)}."
