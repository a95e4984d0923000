"""The work of a cluster as a page: which worker computed what, and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from quantkit.cluster.timeline import Timeline, timeline
from quantkit.cluster.worker import Work
from quantkit.host.placeholders import hidden
from quantkit.host.revision import described, own_revision
from quantkit.report.page.document import Bullets, Document, Part, Picture, Section
from quantkit.report.page.figure import LIGHT, Entry, Figure, Panel, Style
from quantkit.report.page.html import page
from quantkit.report.page.table import FACTS, Table
from quantkit.report.study.words import shortened
from quantkit.units import counted, megabytes, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLE = "Work of a cluster"

_DEFINITIONS = (
    "A shard is some consecutive samples that one engine runs the network over. Times are those of the hosts' clocks. "
    "An engine's first shard takes longer, as the engine starts.",
    "Busy is the time in which an engine had a shard, as a share of the time from the first shard's beginning to the "
    "last one's end, for every engine. If engines are as fast beside each other as alone, it is the efficiency: the "
    "speed-up over one worker, divided by their number.",
    "A shard that is computed again was lost with its worker. A copy is a slow shard that a second worker takes, when "
    "it has nothing else to do; the first result counts.",
)

_STYLES = (
    Style("series1"),
    Style("series2", hatch="////"),
    Style("series3"),
    Style("series4", hatch="////"),
    Style("series5"),
    Style("series6", hatch="////"),
)
# Workers that a figure shows, and letters of their names there.
_MOST_ROWS = 64
_NAME = 34
_WIDE, _ROW = 7.0, 0.24
# Bars that can be told apart, and gaps: so many of them are as wide as the figure.
_MOST_BARS, _WIDTHS = 2000, 500


def cluster_page(work: Sequence[Work], slots: int, description: str, again: int, copies: int) -> str:
    """The work of a cluster as one self-contained HTML page.

    Args:
        work: at least one shard's.
        slots: how many shards are computed at once.
        description: the cluster in words.
        again: how many shards were sent again, since they were lost.
        copies: how many were computed by a second worker, too, since they were slow.

    Raises:
        ExtraMissing: the packages for pages are not installed.
    """
    whole = timeline(work, slots)
    facts = (
        ("cluster", description),
        ("shards", str(whole.shards)),
        ("seconds", f"{whole.seconds:.1f}"),
        ("busy", percent(whole.busy)),
        ("networks and samples handed to engines", megabytes(whole.received)),
        ("partial results", megabytes(whole.size)),
        ("computed again", str(again)),
        ("copies", str(copies)),
        ("commit of quantkit", described(own_revision())),
    )
    sections = (
        Section("What was done", (Table("Work", FACTS, facts), Picture(_figure(work), "shards"))),
        Section("Workers", (_workers(work, whole),)),
        Section("Passes over the samples", (_passes(work, slots),)),
        Section("How to read this", (Bullets(_DEFINITIONS),)),
    )
    part = Part(_TITLE, (f"{whole.text}.",), (), sections)
    return page(Document(_TITLE, (part,), "Made by quantkit."))


def _workers(work: Sequence[Work], whole: Timeline) -> Table:
    rows = []
    for worker, own in _by(work, lambda each: each.worker).items():
        took = [each.seconds for each in own]
        share = percent(sum(took) / whole.seconds) if whole.seconds else ""
        figures = (f"{sum(took):.1f}", share, f"{median(took):.2f}", f"{max(took):.2f}")
        rows.append((worker, own[0].host, str(len(own)), *figures))
    columns = ("worker", "host", "shards", "seconds computing", "of the time", "median shard, s", "slowest shard, s")
    note = "A worker with several engines may compute for more than the time."
    return Table("Workers", columns, tuple(rows), frozenset(range(2, len(columns))), note)


def _passes(work: Sequence[Work], slots: int) -> Table:
    rows = []
    for title, own in _by(work, lambda each: each.title).items():
        part = timeline(own, slots)
        rows.append((hidden(title), str(part.shards), f"{part.seconds:.1f}", percent(part.busy), f"{part.slowest:.1f}"))
    columns = ("pass", "shards", "seconds", "busy", "slowest shard over median")
    return Table("Passes", columns, tuple(rows), frozenset(range(1, len(columns))))


def _figure(work: Sequence[Work]) -> Figure:
    """A row for each worker, and a bar for each of its shards."""
    rows = list(_by(work, lambda each: each.worker).items())
    titles = list(dict.fromkeys(each.title for each in work))
    styles = {title: _STYLES[number % len(_STYLES)] for number, title in enumerate(titles)}
    shown = rows[:_MOST_ROWS]
    text = "; ".join(
        f"{worker}: {counted(len(own), 'shard')}, {sum(each.seconds for each in own):.1f} s" for worker, own in shown
    )
    note = f"The first {_MOST_ROWS} of {len(rows)} workers." if len(rows) > len(shown) else ""
    return Figure(
        "shards",
        "Shards by worker",
        "Each bar is a shard. Gaps are times without work: the beginning and the end of a pass, or waiting for shards.",
        tuple(Entry(shortened(hidden(title), _NAME), styles[title], "bar") for title in titles[: len(_STYLES)]),
        (Panel("", text, partial(_draw, rows=shown, styles=styles), _WIDE, 0.9 + _ROW * len(shown)),),
        note,
    )


def _draw(axes: Axes, rows: Sequence[tuple[str, Sequence[Work]]], styles: Mapping[str, Style]) -> None:
    everything = [each for _, own in rows for each in own]
    start, end = min(each.began for each in everything), max(each.ended for each in everything)
    # Of very many shards the gaps are seen, not the shards.
    gap = (end - start) / _WIDTHS if len(everything) > _MOST_BARS else 0.0
    for place, (_, own) in enumerate(rows):
        for title, part in _by(own, lambda each: each.title).items():
            axes.broken_barh(
                [(began - start, ended - began) for began, ended in _spans(part, gap)],
                (place - 0.35, 0.7),
                color=styles[title].value,
                hatch=styles[title].hatch,
                edgecolor=LIGHT["paper"],
                linewidth=0.4,
            )
    axes.set_yticks(range(len(rows)), [shortened(worker.partition("://")[2] or worker, _NAME) for worker, _ in rows])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("seconds")


def _spans(work: Sequence[Work], gap: float) -> list[tuple[float, float]]:
    """The beginnings and ends of shards; those less than ``gap`` seconds apart are one, if that is not 0."""
    spans: list[tuple[float, float]] = []
    for each in sorted(work, key=lambda each: each.began):
        if gap and spans and each.began - spans[-1][1] < gap:
            spans[-1] = spans[-1][0], max(spans[-1][1], each.ended)
        else:
            spans.append((each.began, each.ended))
    return spans


def _by(work: Sequence[Work], key: Callable[[Work], str]) -> dict[str, list[Work]]:
    groups: dict[str, list[Work]] = {}
    for each in work:
        groups.setdefault(key(each), []).append(each)
    return groups
