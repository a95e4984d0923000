"""``quantkit watch``: what the monitor of a deployment has told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import click

from quantkit.cli.options import Verb, force_option, output_options
from quantkit.cli.targets import check_file_target
from quantkit.cli.terminal import Terminal
from quantkit.extras import require

if TYPE_CHECKING:
    from quantkit.deployment.watching.history import Events


@click.command(
    cls=Verb,
    examples=(
        "quantkit watch events/resnet50_v1-int8/1.jsonl",
        "quantkit watch events/resnet50_v1-int8/1.jsonl --out drift.html",
    ),
)
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write a page (.html), too.")
@force_option
@output_options
def watch(terminal: Terminal, file: Path, out: Optional[Path], force: bool) -> None:
    """Show whether a deployment drifts.

    FILE holds the events of a monitor, which `quantkit serve --monitor --events DIR` and Monitor(events=...) in Python
    write. It is shown what the network's inputs and outputs were like in calibration and lately, which of them drift,
    and how far INT8 agrees with FP32 where that was run, too.
    """
    from quantkit.deployment.watching.history import read_events

    if out is not None:
        check_file_target(out, force)
        for package in ("matplotlib", "jinja2"):
            require("report", package, "the page of a deployment")
    events = read_events(file)
    if out is not None:
        from quantkit.deployment.watching.page import document
        from quantkit.files.files import writing
        from quantkit.report.page.html import page

        content = page(document(file.name, events)).encode()
        with terminal.work.writing(out), writing(out) as target:
            target.write(content)
    terminal.show(_result(events, out), *_texts(events), "" if out is None else f"\n{out}")


def _result(events: Events, out: Optional[Path]) -> dict[str, Any]:
    from dataclasses import asdict

    run = events.runs[-1]
    return {
        **{name: value for name, value in asdict(run.started).items() if name not in ("event", "version")},
        "figures": {name: value for name, value in asdict(run.last).items() if name != "event"},
        "drifting": dict(run.drifting),
        "agreement": run.shadow.agreement,
        "ended": run.ended,
        "earlier_runs": len(events.runs) - 1,
        "damaged_lines": events.damaged,
        "page": None if out is None else str(out),
    }


def _texts(events: Events) -> list[Any]:
    from rich.table import Table
    from rich.text import Text

    from quantkit.deployment.watching.page import COLUMNS, agreement_text, notes, signal_rows, verdict

    run = events.runs[-1]
    table = Table(box=None, pad_edge=False)
    for place, name in enumerate(COLUMNS):
        table.add_column(name, justify="right" if 0 < place < len(COLUMNS) - 1 else "left")
    for row in signal_rows(run):
        table.add_row(*row, style="bold" if row[-1] else "")
    agreed = agreement_text(run)
    span = f"{run.started.model} in {run.started.engine}, from {run.started.time} to {run.last.time}"
    seen = f"{run.last.seen} samples answered, {run.last.watched} of them watched"
    ended = "" if run.ended else ", no end was recorded"
    return [table, f"\n{span}{ended}", *notes(events), seen, *([agreed] if agreed else []), Text(verdict(run), "bold")]
