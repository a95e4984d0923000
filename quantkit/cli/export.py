"""``quantkit export``: a network as an ONNX file, for other engines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import click

from quantkit.cli.option_groups import Loading, Preprocessing
from quantkit.cli.options import Verb, collected, force_option, given, output_options
from quantkit.cli.targets import check_file_target, network_name
from quantkit.cli.terminal import Terminal
from quantkit.errors import UserError
from quantkit.files.bundles import is_bundle
from quantkit.units import megabytes

if TYPE_CHECKING:
    from quantkit.bundle.bundle import Bundle
    from quantkit.bundle.export import Exported
    from quantkit.cli.console import RenderableType

_REDUCED = {"auto": "coarser where sums could leave 16 bits", "all": "7 bits"}
_LSTM = {
    "qdq": "INT8 in OpenVINO; other engines run them in FP32, for ONNX Runtime there is --lstm dynamic",
    "dynamic": "INT8 in ONNX Runtime, the only engine that runs this file",
}


@click.command(
    cls=Verb,
    examples=(
        "quantkit export resnet50_v1-int8",
        "quantkit export resnet50_v1-int8 --opset 17 --reduce-range auto --out resnet50.onnx",
        "quantkit export resnet50 --weights pretrained --out resnet50-fp32.onnx",
    ),
)
@click.argument("source")
@click.option("--format", "form", type=click.Choice(["onnx"]), default="onnx", show_default=True, help="What to write.")
@click.option(
    "--precision",
    type=click.Choice(["int8", "fp32"]),
    help="fp32: without quantization. Of an INT8 bundle, the fused network with the weights that were adapted to "
    "INT8.  [default: that of SOURCE]",
)
@click.option(
    "--opset",
    type=int,
    metavar="N",
    help="The version of ONNX's operators, 13 to 21.  [default: the oldest that has all of the network's]",
)
@click.option(
    "--reduce-range",
    type=click.Choice(["none", "auto", "all"]),
    default="none",
    show_default=True,
    help="For processors without VNNI, where sums of two 8-bit products can overflow 16 bits. auto: coarser weights in "
    "the channels where this can happen, only as coarse as necessary; all: 7 bits everywhere, less accurate.",
)
@click.option(
    "--lstm",
    type=click.Choice(["qdq", "dynamic"]),
    default="qdq",
    show_default=True,
    help="How INT8 LSTM layers are written. qdq: in ONNX's own operators, INT8 in OpenVINO and FP32 in other engines; "
    "dynamic: as DynamicQuantizeLSTM, INT8 in ONNX Runtime, the only engine that runs the file.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="The file to write.  [default: NAME.onnx]")
@collected("loading", Loading)
@collected("preprocessing", Preprocessing)
@force_option
@output_options
def export(
    terminal: Terminal,
    source: str,
    form: str,
    precision: Optional[str],
    opset: Optional[int],
    reduce_range: str,
    lstm: str,
    out: Optional[Path],
    loading: Loading,
    preprocessing: Preprocessing,
    force: bool,
) -> None:
    """Write a network as an ONNX file.

    SOURCE is a bundle or a network. An INT8 bundle becomes a network in QDQ form, which ONNX Runtime and OpenVINO
    run in INT8: integer weights per channel, integer biases, 8-bit activations. A network, or the bundle of a
    fused one, is written in FP32. The batch size is left open.
    """
    from quantkit.bundle.summary import export_summary
    from quantkit.formats.onnx.writing.model import check_opset

    check_opset(opset)
    out = out or Path(f"{Path(source).name if is_bundle(source) else network_name(source)}.onnx")
    check_file_target(out, force)
    if is_bundle(source):
        bundle = _opened(terminal, source, loading, preprocessing)
        precision = precision or bundle.manifest.kind
        _check_integers(precision, reduce_range, lstm)
        terminal.stage(f"writing {out}")
        with terminal.work.writing(out):
            written = _export_bundle(terminal, bundle, out, precision, opset, reduce_range, lstm)
    else:
        if precision == "int8":
            raise UserError(f"{source} is an FP32 network; quantize it first: quantkit quantize {source}")
        precision = "fp32"
        _check_integers(precision, reduce_range, lstm)
        from quantkit.bundle.export import export_onnx
        from quantkit.cli.networks import load

        model = load(terminal, source, loading, preprocessing)
        terminal.stage(f"writing {out}")
        with terminal.work.writing(out):
            written = export_onnx(model, out, opset)
    summary = export_summary(out, precision, written.opset, reduce_range, written.plan, lstm)
    result = {"source": source, "format": form, **summary}
    terminal.show(result, *_tables(result))


def _opened(terminal: Terminal, source: str, loading: Loading, preprocessing: Preprocessing) -> Bundle:
    from quantkit.bundle import read_bundle
    from quantkit.cli.networks import warn_of_bundle

    for name in (*given(loading), *given(preprocessing)):
        raise UserError(f"{source} is a bundle, which has its own; leave {name} out")
    bundle = read_bundle(Path(source))
    warn_of_bundle(terminal, source, bundle.manifest.source.weights)
    return bundle


def _check_integers(precision: str, reduce_range: str, lstm: str) -> None:
    for option, chosen, usual in (("--reduce-range", reduce_range, "none"), ("--lstm", lstm, "qdq")):
        if precision == "fp32" and chosen != usual:
            raise UserError(f"{option} is for integers, and the file is to hold FP32; leave it out")


def _export_bundle(
    terminal: Terminal, bundle: Bundle, out: Path, precision: str, opset: Optional[int], reduce_range: str, lstm: str
) -> Exported:
    from quantkit.bundle.export import export_fused_onnx, export_int8_onnx
    from quantkit.quantization.ptq_config import NO_ALGORITHMS

    if precision == "int8":
        return export_int8_onnx(bundle, out, opset, reduce_range, lstm)  # type: ignore[arg-type]
    settings = bundle.manifest.settings
    if settings is not None and settings.algorithms != NO_ALGORITHMS:
        terminal.warn(
            "the bundle's weights were adapted to INT8, so in FP32 they compute not quite what the original does; for "
            f"that, export the network itself: quantkit export {bundle.manifest.source.network}"
        )
    return export_fused_onnx(bundle, out, opset)


def _tables(result: dict[str, Any]) -> list[RenderableType]:
    from rich.text import Text

    from quantkit.cli.summary import grid_of

    rows = [("file", f"{megabytes(result['size'])}, ONNX opset {result['opset']}, {result['precision'].upper()}")]
    if result["int8"]:
        rows.append(("INT8", ", ".join(f"{count} {operator}" for operator, count in result["int8"].items())))
    if result["reduce_range"] != "none":
        rows.append(("weights", _REDUCED[result["reduce_range"]]))
    if result["lstm"]:
        rows.append(("LSTM layers", _LSTM[result["lstm"]]))
    if result["fp32_layers"]:
        rows.append(("in FP32", ", ".join(result["fp32_layers"])))
    return [Text(f"\n{result['source']} as ONNX: {result['file']}", "bold"), grid_of(rows)]
