"""``quantkit verify``: whether a bundle is complete, unaltered, and computes what it did when it was made.

With ``--engine`` also whether its ONNX file computes that in another engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import click

from quantkit.backends.registry import ONNX_ENGINES, REFERENCE
from quantkit.cli.options import Verb, output_options
from quantkit.cli.targets import is_bundle
from quantkit.cli.terminal import Terminal
from quantkit.cli.work import without_controls
from quantkit.errors import EngineError, EngineMissing, UserError

if TYPE_CHECKING:
    import numpy as np

    from quantkit.bundle import Bundle, Check
    from quantkit.diagnosis.parity.check import EngineParity

_BATCH_SIZE = 8
_IMAGES = 100

# The reference evaluator takes seconds for an image.
_REFERENCE_IMAGES = 4

_COLUMNS = [
    ("cosine", "of the tensor's values with MXNet's"),
    ("away", "values more than one step from MXNet's, for what the layers before hand on as well"),
    ("alone", "the same where the layer reads the integers that it does in MXNet"),
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
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Use the first N images only.  [default: {_IMAGES}; {_REFERENCE_IMAGES} for {REFERENCE.name}]",
)
@click.option("--layers", is_flag=True, help="Compare --engine layer by layer, too, and name the first that differs.")
@output_options
def verify(
    terminal: Terminal,
    bundle: str,
    engines: tuple[str, ...],
    data: Optional[str],
    limit: Optional[int],
    layers: bool,
) -> None:
    """Check that a bundle is complete and unaltered.

    Compares files and hashes, the signature, the quantized network with the symbol, and the output for a stored
    sample with what was written. Ends with 0 if all is well and with 1 if not.

    With --engine the INT8 network as an ONNX file (the bundle's own, or one that is written for the purpose) must
    compute what MXNet does: the mean cosine of the outputs is at least 0.998 (or what INT8 has with FP32, where that
    is less), the top-1 is the same for 95 % of the images (or as many as for INT8 and FP32) as far as their number
    allows one to tell (2 of 4 and 5 of 32 may differ), and no layer that should run in INT8 runs in FP32. Without
    images to compare on, and where MXNet is not installed, the stored sample is compared.
    """
    if not is_bundle(bundle):
        raise UserError(f"{bundle} is no bundle: it has no manifest.json; give a folder that quantkit wrote")
    if not engines:
        for option, given in (("--data", data), ("--limit", limit), ("--layers", layers or None)):
            if given is not None:
                raise UserError(f"{option} is for comparing engines; give --engine as well, or leave it out")
    from quantkit.bundle import open_bundle, read_manifest
    from quantkit.bundle.export import check_int8_bundle

    terminal.stage(f"verifying {bundle}")
    path = Path(bundle)
    checks, has_mxnet = _bundle_checks(terminal, path, engines)
    sound = all(check.ok for check in checks)
    found: list[EngineParity] = []
    if sound and engines:
        opened = open_bundle(path, read_manifest(path))
        check_int8_bundle(opened)
        for engine in dict.fromkeys(engines):
            images = _images(terminal, opened, engine, data, limit) if has_mxnet else None
            checks += _engine_checks(terminal, opened, engine, images, layers and has_mxnet, found)
    ok = all(check.ok for check in checks)
    result: dict[str, Any] = {
        "bundle": bundle,
        "ok": ok,
        "checks": [{"name": check.name, "ok": check.ok, "why": check.why} for check in checks],
    }
    if engines:
        result["engines"] = [_as_json(each) for each in found]
    tables = _layer_tables(found)
    terminal.show(result, _check_table(checks), *tables, f"\n{_verdict(bundle, sound, checks)}")
    if not ok:
        failed = "; ".join(f"{check.name}: {check.why}" for check in checks if not check.ok)
        click.echo(without_controls(f"Error: {bundle} failed verification: {failed}"), err=True)
        click.get_current_context().exit(1)


def _verdict(bundle: str, sound: bool, checks: list[Check]) -> str:
    if not sound:
        return f"{bundle} is NOT sound: do not deploy it; make it again or copy it again."
    if all(check.ok for check in checks):
        return f"{bundle} is sound."
    return f"{bundle} is sound in MXNet, but its ONNX file is NOT: do not deploy it where a check failed."


def _bundle_checks(terminal: Terminal, bundle: Path, engines: tuple[str, ...]) -> tuple[list[Check], bool]:
    """The verdicts on the bundle itself, and whether MXNet is there; where it is not, on its files alone."""
    from quantkit.bundle import verify_bundle, verify_files

    try:
        return list(verify_bundle(bundle).checks), True
    except EngineMissing:
        if not engines:
            raise
    terminal.warn(
        "there is no MXNet in this environment: its network is not run, and engines are compared with what it computed "
        "for the stored sample when the bundle was made"
    )
    return list(verify_files(bundle).checks), False


def _engine_checks(
    terminal: Terminal,
    bundle: Bundle,
    engine: str,
    images: Optional[Iterator[np.ndarray]],
    layers: bool,
    found: list[EngineParity],
) -> tuple[Check, ...]:
    """The verdicts on an engine; what was found of it is added to ``found``."""
    from quantkit.bundle import Check
    from quantkit.bundle.export import int8_onnx
    from quantkit.diagnosis.parity.check import engine_parity

    content = bundle.onnx
    if content is None:
        terminal.stage("writing the network as ONNX, which the bundle does not hold")
        content = int8_onnx(bundle.model, bundle.network, bundle.manifest.settings)
    try:
        found.append(engine_parity(bundle, content, engine, images, _BATCH_SIZE, layers, terminal.progress))
    except EngineError as error:
        return (Check(engine, False, str(error)),)
    return found[-1].checks


def _images(
    terminal: Terminal, bundle: Bundle, engine: str, data: Optional[str], limit: Optional[int]
) -> Optional[Iterator[np.ndarray]]:
    """Batches of the network's input; None where nothing is known of how to make them of photographs."""
    from quantkit.data.batches import batches
    from quantkit.data.sources import load_data

    if data is None and bundle.preprocess is None:
        terminal.tell(f"{engine}: the stored sample only, the preprocessing of images is not known; give --data")
        return None
    samples = load_data(data or "builtin")
    most = limit or (_REFERENCE_IMAGES if engine == REFERENCE.name else _IMAGES)
    count = most if samples.size is None else min(most, samples.size)
    stream = batches(samples, bundle.preprocess, bundle.manifest.input.shape, _BATCH_SIZE, count)
    counted = terminal.progress(stream, -(-count // _BATCH_SIZE), f"comparing {engine} with MXNet on {samples.name}")
    return (batch.data for batch in counted)


def _as_json(found: EngineParity) -> dict[str, Any]:
    parts = (found.images or found.sample, found.precision, *(found.layers or ()))
    verdicts = [part.ok for part in parts if part is not None]
    return {**asdict(found), "ok": all(verdicts)}


def _check_table(checks: list[Check]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for check in checks:
        mark = Text("ok", "green") if check.ok else Text("FAIL", "bold red")
        table.add_row(mark, check.name, check.why)
    return table


def _layer_tables(found: list[EngineParity]) -> list[Any]:
    from quantkit.cli.summary import grid_of

    tables = [part for each in found if each.layers is not None for part in _layer_table(each)]
    return [*tables, "", grid_of(_COLUMNS)] if tables else []


def _layer_table(found: EngineParity) -> tuple[Any, Any]:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None)
    for title in ("cosine", "away", "alone"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("operator", no_wrap=True)
    table.add_column("tensor", overflow="fold")
    for layer in found.layers or ():
        style = "" if layer.ok else "bold red"
        shares = (f"{100 * share:.2f} %" for share in (layer.beyond, layer.alone))
        table.add_row(f"{layer.cosine:.5f}", *shares, layer.operator, layer.tensor, style=style)
    return Text(f"\n{found.engine} against MXNet, layer by layer", "bold"), table
