"""``quantkit profile``: where the time of a network goes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

import click

from quantkit.cli.option_groups import Loading
from quantkit.cli.options import Verb, collected, force_option, output_options
from quantkit.cli.targets import check_file_target
from quantkit.cli.terminal import Terminal
from quantkit.files.bundles import is_bundle
from quantkit.units import percent

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from quantkit.bundle import Bundle
    from quantkit.cli.console import RenderableType
    from quantkit.diagnosis.profile.profile import Profile, Row
    from quantkit.models.model import Model

_TOP = 15
_TRACE = "trace.json"
_STEADY = 0.2

# Widths in the table of layers: of the longest word below the names, of all words there, of the longest word of
# kernels, of all columns of figures.
_WORD, _WORDS, _KERNEL, _FIGURES = 9, 21, 16, 36

_SPENT = {
    "int8": "INT8 kernels",
    "floating": "FP32 kernels",
    "conversions": "quantize, dequantize",
    "reorders": "reorders of layouts",
    "copies": "copies",
    "around": "overhead around kernels",
    "own": "operators of MXNet's own",
    "others": "operators of no layer",
    "between": "scheduling and waiting",
}


@click.command(
    cls=Verb,
    examples=(
        "quantkit profile resnet50_v1-int8",
        "quantkit profile resnet50_v1-int8 --batch 16 --all",
        "quantkit profile resnet50 --out resnet50-profile",
    ),
)
@click.argument("network", metavar="BUNDLE|MODEL")
@click.option(
    "--batch", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Samples in a run."
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many runs to record.  [default: what 3 s allow, 5 to 50]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help=f"Write DIR/{_TRACE}, for chrome://tracing or Perfetto.",
)
@click.option("--all", "everything", is_flag=True, help=f"Show all layers, not only the {_TOP} that take longest.")
@force_option
@collected("loading", Loading)
@output_options
def profile(
    terminal: Terminal,
    network: str,
    batch: int,
    runs: Optional[int],
    out: Optional[Path],
    everything: bool,
    force: bool,
    loading: Loading,
) -> None:
    """Show where the time goes: by layer, by operator and by kernel.

    Layers have their original names. Times are from MXNet's profiler and add up to one run; kernels and instruction
    sets are those that the engine itself reports. Speeds are in 10^9 multiply-accumulates per second, beside the peak
    that this machine reaches in the same precision.
    """
    from quantkit.diagnosis.profile.chrome import chrome_trace
    from quantkit.diagnosis.profile.document import profile_document
    from quantkit.diagnosis.profile.measure import profile_network
    from quantkit.diagnosis.profile.write import write_trace

    trace = None if out is None else out / _TRACE
    if trace is not None:
        check_file_target(trace, force, make_folder=True)
    measured = profile_network(_opened(terminal, network, loading), batch, runs, terminal.stage)
    profiled = measured.profile
    if trace is not None:
        with terminal.work.writing(trace):
            write_trace(chrome_trace(network, measured.graph, measured.recording, profiled), trace)
    result = {
        "network": network,
        "kind": measured.kind,
        **profile_document(profiled, measured.graph),
        "trace": str(trace) if trace else None,
    }
    terminal.show(result, *_tables(result, profiled, everything))
    if profiled.times.spread > _STEADY:
        terminal.warn(
            f"even the middle half of the runs differ by {percent(profiled.times.spread)}: other work keeps this "
            "machine busy; times and shares are no better than that"
        )
    if profiled.times.doubt:
        terminal.warn(f"times are by operator, not by layer: {profiled.times.doubt}")


def _opened(terminal: Terminal, spec: str, loading: Loading) -> Union[Model, Bundle]:
    from quantkit.cli.networks import load, warn_of_bundle

    if not is_bundle(spec):
        return load(terminal, spec, loading)
    from quantkit.bundle import read_bundle

    terminal.stage(f"loading {spec}")
    bundle = read_bundle(Path(spec))
    warn_of_bundle(terminal, spec, bundle.manifest.source.weights)
    return bundle


def _tables(result: dict[str, Any], profile: Profile, everything: bool) -> list[RenderableType]:
    from rich.text import Text

    kind = result["kind"].upper()
    title = Text(f"\n{result['network']} ({kind}), batch {profile.batch}, {result['threads']} threads", "bold")
    parts: list[RenderableType] = [title]
    if profile.times.nodes:
        parts += [_layers_table(profile, everything), Text("\nby operator", "bold")]
    parts += [_operators_table(profile), Text("\nin all", "bold"), _summary(result, profile)]
    if result["trace"]:
        parts.append(f"\ntrace: {result['trace']}    open it in chrome://tracing or ui.perfetto.dev")
    return parts


def _layers_table(profile: Profile, everything: bool) -> Table:
    from rich.text import Text

    rows = sorted(profile.rows, key=lambda row: -row.milliseconds)
    shown = rows if everything else rows[:_TOP]
    texts = [(row.layer.name, row.layer.operator, _kernel_text(row)) for row in shown]
    widths = _widths(texts)
    beside = bool(widths)
    others = ("", "") if beside else ()
    table = _table("layer", *(("operator", "kernel") if beside else ()), "ms", "%", "GMAC/s", "of peak")
    for column, width in zip(table.columns, widths):
        column.width = width
    for row, (name, operator, kernel) in zip(shown, texts):
        below = Text.assemble(f"{name}\n", (f"{operator}, ", "dim"), kernel)
        table.add_row(
            *((name, operator, kernel) if beside else (below,)), *_time(profile, row.milliseconds),
            "" if row.gmacs is None else f"{row.gmacs:.1f}",
            "" if row.of_peak is None else f"{100 * row.of_peak:.0f} %",
        )  # fmt: skip
    rest = rows[len(shown) :]
    if rest:
        name = "1 other layer" if len(rest) == 1 else f"{len(rest)} other layers"
        table.add_row(Text(name, "dim"), *others, *_time(profile, sum(row.milliseconds for row in rest)))
    if profile.times.others:
        table.add_row(
            Text("operators of no layer", "dim"), *others, *_time(profile, sum(profile.times.others.values()))
        )
    table.add_row(Text("outside of operators", "dim"), *others, *_time(profile, profile.times.between))
    table.add_row(Text("one run, profiled", "bold"), *others, *_time(profile, profile.times.total))
    return table


def _widths(texts: Sequence[tuple[str, str, Text]]) -> tuple[int, ...]:
    """The widths that show names and operators whole beside the kernels; empty if the terminal is too narrow."""
    from rich.cells import cell_len

    from quantkit.cli.console import PlainConsole

    # Kernels consist of words, which wrap; so does the text below the names on a narrow terminal.
    name = max([_WORD, *(cell_len(row[0]) for row in texts)])
    operator = max([_WORD, *(cell_len(row[1]) for row in texts)])
    room = PlainConsole().width - operator - _KERNEL - _FIGURES
    return (min(max(name, _WORDS), room), operator) if name <= room else ()


def _operators_table(profile: Profile) -> Table:
    table = _table("operator", "", "calls", "ms", "%")
    rows = [(name, str(count), spent) for name, (count, spent) in profile.operators.items()]
    rows += [(name, "", spent) for name, spent in profile.times.others.items()]
    for name, count, spent in sorted(rows, key=lambda row: -row[2]):
        table.add_row(name, "", count, *_time(profile, spent))
    return table


def _summary(result: dict[str, Any], profile: Profile) -> Table:
    from quantkit.cli.summary import grid_of

    total = profile.times.total
    change = 100 * (total / profile.latency - 1)
    rows = [
        ("latency", f"{profile.latency:.3g} ms a run without the profiler (median)"),
        ("profiled", f"{total:.3g} ms a run, operators one by one: {change:+.1f} %"),
    ]
    for key, name in _SPENT.items():
        spent = result["spent_ms"][key]
        if spent or (key == "int8" and result["kind"] == "int8"):
            isa = f", on {', '.join(profile.isa)}" if key == "int8" and profile.isa else ""
            rows.append((name, f"{spent:.3f} ms, {percent(spent / total)}{isa}"))
    if profile.gmacs is not None:
        share = f", {percent(profile.of_peak)} of the peak" if profile.of_peak is not None else ""
        rows.append(
            ("speed", f"{profile.macs / 1e9:.3g} GMAC in {profile.latency:.3g} ms: {profile.gmacs:.0f} GMAC/s{share}")
        )
    int8 = "INT8 cannot run here" if profile.peak.int8 is None else f"INT8 {profile.peak.int8:.0f}"
    rows.append(("peak, measured", f"{int8}, FP32 {profile.peak.fp32:.0f} GMAC/s"))
    if any(row.of_peak is not None and row.of_peak > 1.05 for row in profile.rows):
        rows.append(("", "layers above the peak: the machine was busy while it was measured; run again"))
    return grid_of(rows)


def _table(*columns: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style="cyan")
    numbers = {"ms", "%", "GMAC/s", "of peak", "calls"}
    for column in columns:
        if column in numbers:
            table.add_column(column, justify="right", no_wrap=True)
        else:
            table.add_column(column, min_width=_KERNEL if column == "kernel" else None, overflow="fold")
    return table


def _time(profile: Profile, milliseconds: float) -> tuple[str, str]:
    # As many digits as a narrow terminal has room for.
    decimals = 3 if milliseconds < 10 else 2 if milliseconds < 100 else 1
    return f"{milliseconds:.{decimals}f}", f"{100 * milliseconds / profile.times.total:.1f}"


def _kernel_text(row: Row) -> Text:
    from rich.text import Text

    if row.kernel is None:
        return Text("MXNet's own", "dim")
    kernel = row.kernel
    types = "x".join(filter(None, (kernel.source, kernel.weights)))
    # Separate words, which wrap on a narrow terminal.
    name = kernel.implementation.replace(f":{kernel.isa}", "") if kernel.isa else kernel.implementation
    return Text(" ".join(filter(None, (name, types, kernel.isa))))
