"""``quantkit verify``: whether a bundle is complete, unaltered, and computes what it did when it was made."""

from __future__ import annotations

from pathlib import Path

import click

from quantkit.cli.options import Verb, output_options
from quantkit.cli.targets import is_bundle
from quantkit.cli.terminal import Terminal
from quantkit.errors import UserError


@click.command(
    cls=Verb,
    examples=(
        "quantkit verify resnet50_v1-int8",
        "quantkit verify resnet50_v1-int8 --quiet && deploy resnet50_v1-int8",
    ),
)
@click.argument("bundle")
@output_options
def verify(terminal: Terminal, bundle: str) -> None:
    """Check that a bundle is complete and unaltered.

    Compares files and hashes, the signature, and the output for a stored sample with what was
    written. Ends with 0 if all is well and with 1 if not.
    """
    if not is_bundle(bundle):
        raise UserError(f"{bundle} is no bundle: it has no manifest.json; give a folder that quantkit wrote")
    from rich.markup import escape
    from rich.table import Table

    from quantkit.bundle import verify_bundle

    terminal.stage(f"verifying {bundle}")
    found = verify_bundle(Path(bundle))
    table = Table.grid(padding=(0, 2))
    for check in found.checks:
        table.add_row("[green]ok[/]" if check.ok else "[bold red]FAIL[/]", check.name, escape(check.why))
    result = {
        "bundle": bundle,
        "ok": found.ok,
        "checks": [{"name": check.name, "ok": check.ok, "why": check.why} for check in found.checks],
    }
    verdict = "is sound." if found.ok else "is NOT sound: do not deploy it; make it again or copy it again."
    terminal.show(result, table, f"\n{escape(bundle)} {verdict}")
    if not found.ok:
        failed = "; ".join(f"{check.name}: {check.why}" for check in found.checks if not check.ok)
        click.echo(f"Error: {bundle} failed verification: {failed}", err=True)
        click.get_current_context().exit(1)
