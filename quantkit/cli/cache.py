"""``quantkit cache``: what lies in QUANTKIT_HOME, and removing it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quantkit.cli.options import Verb, output_options
from quantkit.cli.terminal import Terminal
from quantkit.files.cache import KINDS
from quantkit.units import megabytes

if TYPE_CHECKING:
    from quantkit.cli.console import RenderableType


@click.command(
    cls=Verb,
    examples=("quantkit cache", "quantkit cache --clean workloads", "quantkit cache --clean builds --clean weights"),
)
@click.option(
    "--clean",
    multiple=True,
    type=click.Choice([*KINDS, "all"]),
    help="Remove all entries of this kind that no process uses. Repeatable.",
)
@output_options
def cache(terminal: Terminal, clean: tuple[str, ...]) -> None:
    """List what is kept in QUANTKIT_HOME, or remove it.

    Everything here is made or downloaded again when it is needed. If workloads take more than 10 GB
    (QUANTKIT_WORKLOADS_GB), the least recently used are removed. What a running process uses stays, and so do the
    targets of links, your own interpreters, and the records of weights that were trusted on first use.
    """
    from quantkit.files.cache import remove_unused
    from quantkit.files.files import home

    removed = {}
    for name in KINDS if "all" in clean else dict.fromkeys(clean):
        terminal.stage(f"removing {name}")
        removed[name] = remove_unused(KINDS[name].entries())
    kept = {name: kind.entries() for name, kind in KINDS.items()}
    result: dict[str, Any] = {
        "home": str(home()),
        "kinds": [
            {
                "kind": name,
                "holds": KINDS[name].title,
                "entries": len(entries),
                "bytes": sum(entry.size for entry in entries),
                "removed": len(removed.get(name, ())),
                "removed_bytes": sum(entry.size for entry in removed.get(name, ())),
            }
            for name, entries in kept.items()
        ],
    }
    terminal.show(result, *_summary(result, bool(removed)))


def _summary(result: dict[str, Any], cleaned: bool) -> list[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("kind", "holds", "entries", "size", *(["removed"] if cleaned else [])):
        table.add_column(title, no_wrap=title != "holds", justify="left" if title in ("kind", "holds") else "right")
    for kind in result["kinds"]:
        gone = [megabytes(kind["removed_bytes"]) if kind["removed"] else ""] if cleaned else []
        table.add_row(kind["kind"], kind["holds"], str(kind["entries"]), megabytes(kind["bytes"]), *gone)
    total = sum(kind["bytes"] for kind in result["kinds"])
    return [table, Text(f"\n{result['home']}: {megabytes(total)}")]
