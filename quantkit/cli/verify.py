"""``quantkit verify``: whether a bundle is complete, unaltered, and computes what it did when it was made.

With ``--engine`` also whether its ONNX file computes that in another engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Optional

import click

from quantkit.backends.registry import ONNX_ENGINES, REFERENCE
from quantkit.cli.options import Verb, output_options
from quantkit.cli.terminal import Terminal
from quantkit.cli.work import without_controls
from quantkit.errors import UserError
from quantkit.files.bundles import is_bundle
from quantkit.host.cpu import read_cpu

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from quantkit.bundle import Check
    from quantkit.cli.console import RenderableType
    from quantkit.diagnosis.parity.check import EngineParity
    from quantkit.diagnosis.parity.verify import EnginesVerification

_WITHOUT_VNNI = (
    "This processor has no VNNI: sums can saturate in 16 bits, and each engine saturates differently. Verify on one "
    "that has it; for those without, write the file with `quantkit export --reduce-range auto`."
)

_COLUMNS = [
    ("cosine", "of the tensor's values with MXNet's"),
    ("away", "values more than one step from MXNet's, with the errors of the layers before"),
    ("alone", "the same if the layer reads the integers that it reads in MXNet"),
]


@click.command(
    cls=Verb,
    examples=(
        "quantkit verify resnet50_v1-int8",
        "quantkit verify resnet50_v1-int8 --quiet && deploy resnet50_v1-int8",
        "quantkit verify resnet50_v1-int8 --engine onnxruntime --engine openvino --data photos/",
        "quantkit verify resnet50_v1-int8 --engine onnxruntime --layers",
    ),
)
@click.argument("bundle")
@click.option(
    "--engine",
    "engines",
    multiple=True,
    type=click.Choice([*ONNX_ENGINES]),
    help="Run the network's ONNX file in this engine as well and compare it with MXNet. Repeatable. "
    f"{REFERENCE.name}: ONNX's own evaluator, in NumPy, slow.",
)
@click.option("--data", metavar="SPEC", help="Images for --engine, as for `quantkit evaluate`.  [default: builtin]")
@click.option(
    "--num-samples",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Use the first N images only.  [default: 100; 4 for {REFERENCE.name}]",
)
@click.option("--layers", is_flag=True, help="Compare --engine layer by layer, too, and name the first that differs.")
@output_options
def verify(
    terminal: Terminal,
    bundle: str,
    engines: tuple[str, ...],
    data: Optional[str],
    num_samples: Optional[int],
    layers: bool,
) -> None:
    """Check that a bundle is complete and unaltered.

    Checks the files against their hashes, the signature, the quantized network against the symbol, and the output for
    the stored sample. Exit code 1: one of them is wrong.

    With --engine, the ONNX file of the INT8 network (the bundle's own, or one that is written for the purpose) must
    compute what MXNet does. The mean cosine of the outputs must be at least 0.998, or that of INT8 with FP32 if it is
    lower. The top-1 must be the same for 95 % of the images, or for as many as with INT8 and FP32, as far as their
    number allows a verdict: 2 of 4 and 5 of 32 may differ. Detections and maps of classes need an mAP or mIoU against
    MXNet's of at least 95 %, or that of INT8 with FP32 if it is lower; detections then need no cosine, but boxes that
    overlap MXNet's by 0.9 on average. No layer that should run in INT8 may run in FP32. Without images to compare on,
    and where MXNet is not installed, the stored sample is compared.
    """
    if not is_bundle(bundle):
        raise UserError(f"{bundle} is not a bundle: it has no manifest.json; give a folder that quantkit wrote")
    if not engines:
        for option, given in (("--data", data), ("--num-samples", num_samples), ("--layers", layers or None)):
            if given is not None:
                raise UserError(f"{option} is for comparing engines; give --engine as well, or leave it out")
    from quantkit.bundle import verify_bundle
    from quantkit.diagnosis.parity.verify import EnginesVerification, verify_in_engines

    terminal.stage(f"verifying {bundle}")
    if engines:
        verified = verify_in_engines(bundle, engines, data, num_samples, layers, terminal.tell, terminal.progress)
    else:
        verified = EnginesVerification(verify_bundle(bundle))
    result: dict[str, Any] = {
        "bundle": bundle,
        "ok": verified.ok,
        "checks": [asdict(check) for check in verified.checks],
    }
    if engines:
        result["engines"] = [{**asdict(each), "ok": each.ok} for each in verified.engines]
    verdict = f"\n{_verdict(bundle, verified)}"
    terminal.show(result, _check_table(verified.checks), *_layer_tables(verified.engines), verdict)
    if not verified.ok:
        failed = "; ".join(f"{check.name}: {check.why}" for check in verified.checks if not check.ok)
        click.echo(without_controls(f"Error: {bundle} failed verification: {failed}"), err=True)
        click.get_current_context().exit(1)


def _verdict(bundle: str, verified: EnginesVerification) -> str:
    if not verified.bundle.ok:
        return f"{bundle} is NOT sound: do not deploy it; make it again or copy it again."
    if verified.ok:
        return f"{bundle} is sound."
    told = f"{bundle} is sound in MXNet, but its ONNX file is NOT: do not deploy it where a check failed."
    values_differ = any(not check.ok and check.name.endswith((" outputs", " layers")) for check in verified.checks)
    cpu = read_cpu()
    return f"{told} {_WITHOUT_VNNI}" if values_differ and cpu.isa and not cpu.has_vnni else told


def _check_table(checks: Sequence[Check]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for check in checks:
        mark = Text("ok", "green") if check.ok else Text("FAIL", "bold red")
        table.add_row(mark, check.name, check.why)
    return table


def _layer_tables(engines: Sequence[EngineParity]) -> list[RenderableType]:
    from quantkit.cli.summary import grid_of

    tables = [part for each in engines if each.layers is not None for part in _layer_table(each)]
    return [*tables, "", grid_of(_COLUMNS)] if tables else []


def _layer_table(parity: EngineParity) -> tuple[Text, Table]:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None)
    for title in ("cosine", "away", "alone"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("operator", no_wrap=True)
    table.add_column("tensor", overflow="fold")
    for layer in parity.layers or ():
        style = "" if layer.ok else "bold red"
        shares = (f"{100 * share:.2f} %" for share in (layer.beyond, layer.alone))
        table.add_row(f"{layer.cosine:.5f}", *shares, layer.operator, layer.tensor, style=style)
    return Text(f"\n{parity.engine} against MXNet, layer by layer", "bold"), table
