"""``quantkit fuse``: an FP32 network with its operators fused, proven to compute the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quantkit.cli.option_groups import BundleWriting, Loading, Outputs, Preprocessing
from quantkit.cli.options import Verb, collected, output_options
from quantkit.cli.targets import check_bundle_target, check_not_bundle
from quantkit.cli.terminal import Terminal

if TYPE_CHECKING:
    from quantkit.cli.console import RenderableType

_SHOWN = 5


@click.command(
    cls=Verb,
    examples=(
        "quantkit fuse resnet50 --out resnet50-fused",
        "quantkit fuse my/net --out net-fused --calib-data data.npz --input-shape 3,224,224",
    ),
)
@click.argument("model")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", required=True, help="The folder to write.")
@click.option("--calib-data", default="builtin", metavar="SPEC", help="Images to compare on.  [default: builtin]")
@collected("loading", Loading)
@collected("preprocessing", Preprocessing)
@collected("outputs", Outputs)
@collected("writing", BundleWriting)
@click.option("--no-latency", is_flag=True, help="Skip measuring latency, which takes a few seconds.")
@output_options
def fuse(
    terminal: Terminal,
    model: str,
    out: Path,
    calib_data: str,
    loading: Loading,
    preprocessing: Preprocessing,
    outputs: Outputs,
    writing: BundleWriting,
    no_latency: bool,
) -> None:
    """Fuse a network's operators and keep it in FP32.

    Batch normalizations are folded into weights; sums and activations become part of their convolutions. Each fusion is
    checked, and the fused network is compared with the original on real images: it must not deviate by more than
    rounding explains.
    """
    check_not_bundle(model)
    check_bundle_target(out, writing.force)
    from quantkit.cli.networks import check_count, load

    check_count(calib_data, None)
    from quantkit.bundle import write_float_bundle
    from quantkit.bundle.latency import float_latencies
    from quantkit.bundle.summary import fuse_summary
    from quantkit.fusion.fused_model import fuse_model

    loaded = load(terminal, model, loading, preprocessing, outputs.classes, outputs.task)
    terminal.stage("fusing operators and comparing with the original")
    source = fuse_model(loaded, calib_data)
    terminal.stage(f"writing {out}")
    with terminal.work.writing(out):
        write_float_bundle(source, out, writing.force, keep_sample=writing.keep_sample)
    milliseconds = None
    if not no_latency:
        terminal.stage("measuring latency (FP32 and FP32 fused in turns)")
        milliseconds = float_latencies(source)
    result = fuse_summary(source, out, milliseconds)
    terminal.show(result, *_tables(result))


def _tables(result: dict[str, Any]) -> list[RenderableType]:
    from rich.text import Text

    from quantkit.cli.summary import grid_of, latency_rows, weights_text

    check = result["check"]
    predictions = ""
    if result["class_scores"]["yes"]:
        predictions = f"{check['changed_predictions']} of {check['samples']} predictions changed; "
    rows = [("operators", f"{result['operators']['original']}, fused to {result['operators']['fused']}")]
    rows += [
        ("applied" if index == 0 else "", f"{count:>3} {rule}")
        for index, (rule, count) in enumerate(result["applied"].items())
    ]
    rows += [
        ("rejected" if index == 0 else "", f"{rejection['rule']} at {rejection['node']}: {rejection['reason']}")
        for index, rejection in enumerate(result["rejected"][:_SHOWN])
    ]
    if len(result["rejected"]) > _SHOWN:
        rows.append(("", f"and {len(result['rejected']) - _SHOWN} more: quantkit explain {result['bundle']}"))
    rows += [
        (
            "check",
            f"{predictions}outputs differ by at most {check['difference']:.1e} of the largest",
        ),
        *latency_rows(result["latency_ms"]),
        ("weights", weights_text(result["weights"])),
    ]
    return [Text(f"\n{result['model']}, fused: {result['bundle']}", "bold"), grid_of(rows)]
