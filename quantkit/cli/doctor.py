"""``quantkit doctor``: whether this machine can run INT8 networks, and what makes them slow."""

from __future__ import annotations

import click

from quantkit.cli.options import Verb, output_options
from quantkit.cli.terminal import Terminal

_MARKS = {"ok": ("ok", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "bold red")}


@click.command(
    cls=Verb,
    examples=(
        "quantkit doctor",
        "quantkit doctor --json",
    ),
)
@output_options
def doctor(terminal: Terminal) -> None:
    """Check the engine and the machine, and say what to change.

    Checks the engine, NumPy, the extras, the instruction sets that INT8 needs (VNNI, AMX), OpenMP, the number of
    threads and cores, the container's quota, and whether other processes keep the cores busy. Exit code 1: something
    must be fixed before quantkit can work.
    """
    from quantkit.backends.mxnet.build import installed
    from quantkit.backends.registry import DEPLOYED_ONNX, installed_versions
    from quantkit.host.report import examine

    terminal.stage("looking at the engine and the machine")
    report = examine(installed, installed_versions(DEPLOYED_ONNX.values()))
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for finding in report.findings:
        remedy = f"\n→ {finding.remedy}" if finding.remedy else ""
        table.add_row(Text(*_MARKS[finding.level]), finding.topic, Text.assemble(finding.what, (remedy, "bold")))
    summary = {
        "ok": "\nAll is well.",
        "warn": "\nINT8 networks run here, but slower or less exactly than they could: see →.",
        "fail": "\nquantkit cannot work here until each FAIL is fixed: see →.",
    }
    terminal.show(report.as_dict(), table, summary[report.worst])
    if report.worst == "fail":
        click.get_current_context().exit(1)
