"""The page of a watched deployment: whether it drifts, how far it agrees with FP32, and what it told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Optional

from quantkit.deployment.watching.events import Changed, Figures
from quantkit.deployment.watching.history import Events, History
from quantkit.report.page.document import Block, Document, Part, Picture, Section, Text
from quantkit.report.page.figure import Entry, Figure, Line, Panel, Style
from quantkit.report.page.table import Table
from quantkit.report.study.headline import Headline
from quantkit.report.study.words import counted
from quantkit.units import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = ("signal", "in calibration", "now", "distance", "drifts since")
"""Of the table of signals."""

# Lines of the figure, and rows of events.
_LINES = 6
_MOST_CHANGES = 200

_PATTERNS: tuple[Line, ...] = ("-", "--", ":", "-", "--", ":")
_STYLES = tuple(
    Style(f"series{place}", line=line, marker=marker)
    for place, (line, marker) in enumerate(zip(_PATTERNS, "os^vPX"), start=1)
)
_BOUND = Style("ink", line="--")


def document(name: str, events: Events) -> Document:
    """The page of a file of events; earlier runs in it are counted."""
    run = events.runs[-1]
    sections = (
        Section("Distance from calibration", _pictures(run)),
        Section("Signals", (Table("In their last test", COLUMNS, signal_rows(run), frozenset({1, 2, 3}), _NOTE),)),
        *([Section("Agreement with FP32", (Text(agreement_text(run) or ""),))] if agreement_text(run) else []),
        Section("Changes", (_changes(run),)),
    )
    part = Part(name, (verdict(run),), tuple(notes(events)), sections, _headline(run))
    return Document(f"Watching {run.started.model}", (part,), "Made by quantkit from the events of a deployment.")


_NOTE = (
    "In calibration: the mean and the standard deviation over its samples; now: the mean over those of the last test. "
    "The distance between the distributions is that of Kolmogorov and Smirnov, from 0 to 1. The mean and the spread of "
    "a channel are what it has over those of all channels."
)


def notes(events: Events) -> list[str]:
    """What else is in the file."""
    earlier, damaged = len(events.runs) - 1, events.damaged
    return [
        *([f"{counted(earlier, 'earlier run')} in the file"] if earlier else []),
        *([f"{counted(damaged, 'damaged line')} of the file left out"] if damaged else []),
    ]


def verdict(run: History) -> str:
    """Whether it drifts, in a sentence."""
    drifting = run.drifting
    if not drifting and not run.last.signals:
        return "Too few samples were watched to test anything yet."
    if not drifting:
        return "What the network reads and puts out is as it was in calibration, as far as the samples tell."
    names = ", ".join(drifting)
    return f"{counted(len(drifting), 'signal')} drift{'s' if len(drifting) == 1 else ''}: {names}."


def agreement_text(run: History) -> Optional[str]:
    """The agreement with FP32, and what FP32 has answered; None where it was not run."""
    shadow, texts = run.shadow, []
    if (agreement := shadow.agreement) is not None:
        share, low, high = (percent(each) for each in agreement)
        texts.append(
            f"The best class of INT8 is that of FP32 for {share} [{low}, {high}] of "
            f"{counted(shadow.compared, 'sample')} that both have answered."
        )
    if shadow.answered:
        texts.append(f"FP32 has answered {counted(shadow.answered, 'sample')} of which INT8 was not sure.")
    return " ".join(texts) or None


def signal_rows(run: History) -> tuple[tuple[str, ...], ...]:
    """The rows of the table of signals."""
    drifting, now = run.drifting, run.last.signals
    rows = []
    for signal, (mean, spread, _) in sorted(run.started.calibration.items()):
        found = now.get(signal)
        latest = ("", "") if found is None else (f"{found[0]:.4g}", f"{found[1]:.2f}")
        since = drifting[signal][:19].replace("T", " ") if signal in drifting else ""
        rows.append((signal, f"{mean:.4g} ± {spread:.2g}", *latest, since))
    return tuple(rows)


def _headline(run: History) -> Headline:
    last, drifting = run.last, len(run.drifting)
    figures = [(str(drifting), f"{'signal drifts' if drifting == 1 else 'signals drift'}")]
    if (agreement := run.shadow.agreement) is not None:
        figures.append((percent(agreement[0]), f"agreement with FP32, {counted(run.shadow.compared, 'sample')}"))
    figures.append((str(last.seen), f"samples answered, {last.watched} of them watched"))
    started = run.started
    facts = (
        ("network", f"{started.model}, in {started.engine}"),
        ("compared with", counted(started.samples, "calibration sample")),
        ("from, to", f"{started.time}, {last.time}" + ("" if run.ended else " (no end was recorded)")),
    )
    return Headline(tuple(figures), facts)


def _pictures(run: History) -> tuple[Block, ...]:
    if len(run.figures) < 2:
        return (Text("There are too few figures yet to draw; they are written once a minute."),)
    names = _shown(run)
    legend = [Entry(name, style, "line") for name, style in zip(names, _STYLES)]
    legend.append(Entry("the smallest that is told from chance", _BOUND, "line"))
    last = run.last.signals
    alternative = ". ".join(f"{name}: {last[name][1]:.2f}" for name in names if name in last)
    panel = Panel("", f"At last: {alternative}.", partial(_draw, run=run, names=names), 7.0, 3.0)
    caption = (
        "Of the signals that were farthest. Bounds are those of tests of 1024 samples; those of fewer, which find "
        "large changes sooner, have higher ones."
    )
    return (Picture(Figure("distance", "Distance from calibration", caption, tuple(legend), (panel,)), "distance"),)


def _shown(run: History) -> tuple[str, ...]:
    """The signals that were farthest from those of calibration."""
    farthest: dict[str, float] = {}
    for each in run.figures:
        for name, (_, distance) in each.signals.items():
            farthest[name] = max(distance, farthest.get(name, 0.0))
    return tuple(sorted(farthest, key=lambda name: (-farthest[name], name))[:_LINES])


def _draw(axes: Axes, run: History, names: Sequence[str]) -> None:
    begun = datetime.fromisoformat(run.figures[0].time)
    for name, style in zip(names, _STYLES):
        told = [each for each in run.figures if name in each.signals]
        minutes = [_minutes(each, begun) for each in told]
        axes.plot(minutes, [each.signals[name][1] for each in told], style.line, color=style.value, linewidth=1.2)
    calibration = run.started.calibration
    for bound in {calibration[name][2] for name in names if name in calibration}:
        axes.axhline(bound, color=_BOUND.value, linestyle=_BOUND.line, linewidth=1)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("minutes")
    axes.set_ylabel("distance")


def _minutes(figures: Figures, begun: datetime) -> float:
    return (datetime.fromisoformat(figures.time) - begun).total_seconds() / 60


def _changes(run: History) -> Block:
    if not run.changes:
        return Text("Nothing began to drift.")
    left_out = len(run.changes) - _MOST_CHANGES
    return Table(
        "Signals that began to drift, or no longer did",
        ("time", "signal", "what", "mean", "distance", "samples"),
        tuple(map(_row, run.changes[-_MOST_CHANGES:])),
        frozenset({3, 4, 5}),
        f"{counted(left_out, 'earlier change')} left out." if left_out > 0 else "",
    )


def _row(change: Changed) -> tuple[str, ...]:
    what = "drifts" if change.event == "drift" else "no longer drifts"
    return (change.time, change.signal, what, f"{change.mean:.4g}", f"{change.distance:.2f}", str(change.samples))
