"""``quantkit explain``: what became of each operator of a network, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import click

from quantkit.cli.option_groups import Loading, Planning, Preprocessing
from quantkit.cli.options import Verb, collected, output_options
from quantkit.cli.summary import proof_texts
from quantkit.cli.terminal import Terminal
from quantkit.errors import UserError
from quantkit.files.bundles import is_bundle

if TYPE_CHECKING:
    from quantkit.cli.console import RenderableType
    from quantkit.quantization.explain import Explanation

_MARKS = {"int8": ("INT8", "green"), "fp32": ("FP32", "yellow"), "gone": ("gone", "dim")}


@click.command(
    cls=Verb,
    examples=(
        "quantkit explain resnet50_v1-int8",
        "quantkit explain resnet50 --node '*stage1*'",
        "quantkit explain my/net.toml --exclude Pooling --json",
    ),
)
@click.argument("network", metavar="BUNDLE|MODEL")
@click.option("--node", metavar="GLOB", help="Only operators whose name matches, such as '*_conv0*'.")
@click.option("--calib-data", default="builtin", metavar="SPEC", help="For a MODEL: samples.  [default: builtin]")
@collected("planning", Planning)
@collected("loading", Loading)
@collected("preprocessing", Preprocessing)
@output_options
def explain(
    terminal: Terminal,
    network: str,
    node: Optional[str],
    calib_data: str,
    planning: Planning,
    loading: Loading,
    preprocessing: Preprocessing,
) -> None:
    """Say what became of each operator, and why.

    Each operator is listed by its original name, with those that were fused into it: whether it runs in INT8 or why
    not, and which fusions were rejected and why. A MODEL is quantized in memory with a few samples; nothing is
    written.
    """
    if is_bundle(network):
        if (planning, loading, preprocessing) != (Planning(), Loading(), Preprocessing()):
            raise UserError(f"{network} is a bundle: what became of it is settled; give these options with a model")
        from quantkit.bundle import read_bundle

        bundle = read_bundle(Path(network))
        settings, rows, notes = bundle.manifest.settings, bundle.operators, bundle.manifest.notes
        proof = settings.speed if settings is not None else None
    else:
        from quantkit.cli.networks import check_count, load
        from quantkit.diagnosis.explain import explain_model

        check_count(calib_data, None)
        model = load(terminal, network, loading, preprocessing)
        dtype = planning.dtype or "auto"
        proof, notes = None, model.notes
        rows = explain_model(model, calib_data, planning.exclude, dtype, terminal.stage, terminal.progress)
    shown = [row for row in rows if node is None or fnmatchcase(row.node, node)]
    if not shown:
        raise UserError(f"no operator of {network} is called {node!r}; leave --node out to see all {len(rows)}")
    # Of recurrent layers there are several rows.
    counts = Counter[str](precision for _, precision in {(row.node, row.precision) for row in shown})
    result = {
        "network": network,
        "notes": list(notes),
        "operators": [asdict(row) for row in shown],
        "counts": {name: counts[name] for name in ("int8", "fp32", "gone")},
        "never_slower": None if proof is None else asdict(proof),
    }
    proven = [] if proof is None else ["\n".join(proof_texts(asdict(proof)))]
    terminal.show(result, *_tables(shown, counts), *(f"note: {note}" for note in notes), *proven)


def _tables(rows: Sequence[Explanation], counts: Counter[str]) -> list[RenderableType]:
    """A table of the operators; those fused into one form a group under one mark."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    groups: dict[str, list[Explanation]] = {}
    for row in rows:
        groups.setdefault(row.into or row.node, []).append(row)
    table = Table.grid(padding=(0, 2))
    for into, members in groups.items():
        for position, row in enumerate(members):
            last = position == len(members) - 1
            mark = Text(*_MARKS[row.precision]) if position == 0 else " └" if last else " │"
            table.add_row(mark, row.operator, row.node)
            for note in _notes(row, into if last else row.node):
                table.add_row("" if last else " │", "", Padding(Text(note, "dim"), (0, 0, 0, 2)))
    count = len({row.node for row in rows})
    operators = "1 operator" if count == 1 else f"{count} operators"
    total = f"\n{operators}: {counts['int8']} in INT8, {counts['fp32']} in FP32, {counts['gone']} gone."
    return [table, total]


def _notes(row: Explanation, into: str) -> list[str]:
    notes = [f"in {into}"] if into != row.node else []
    notes += [row.reason] if row.reason else []
    return notes + [f"not fused ({rejection})" for rejection in row.rejections]
