"""``quantkit quantize``: from an FP32 network to an INT8 bundle, with the proof of what was gained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Optional

import click

from quantkit.cli.options import (
    METHODS_HELP,
    Verb,
    activations_option,
    exclude_option,
    force_option,
    model_options,
    output_options,
    preset_option,
    sample_options,
)
from quantkit.cli.targets import check_bundle_target, check_not_bundle, default_bundle
from quantkit.cli.terminal import Terminal
from quantkit.errors import UserError

if TYPE_CHECKING:
    from quantkit.calibration.table import CalibrationTable
    from quantkit.pipeline import QuantizedModel

_OUT_HELP = "The folder to write.  [default: NAME-int8 in the current folder]"


@click.command(
    cls=Verb,
    examples=(
        "quantkit quantize resnet50 --calib 10",
        "quantkit quantize resnet50 --calib 100 --calib-data photos/ --method entropy",
        "quantkit quantize my/net --calib-data data.npz --input-shape 3,224,224 --out net-int8",
        "quantkit quantize mobilenet1.0 --exclude '*_dense0*' --exclude Pooling",
        "quantkit quantize mobilenetv2_1.0 --calib 100 --calib-data photos/ --preset best",
        "quantkit quantize resnet50 --calib-table table.json --force",
    ),
)
@click.argument("model")
@sample_options("32, or all where there are fewer")
@click.option(
    "--calib-table",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="An earlier calibration, instead of a new one.",
)
@click.option("--method", metavar="METHOD", help=METHODS_HELP)
@exclude_option
@activations_option
@preset_option
@model_options
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help=_OUT_HELP)
@force_option
@click.option("--no-latency", is_flag=True, help="Measure no speed, which takes some seconds.")
@output_options
def quantize(
    terminal: Terminal,
    model: str,
    calib: Optional[int],
    calib_data: Optional[str],
    calib_table: Optional[Path],
    method: Optional[str],
    exclude: tuple[str, ...],
    activations: str,
    preset: Optional[str],
    weights: str,
    input_shape: Optional[tuple[int, ...]],
    out: Optional[Path],
    force: bool,
    no_latency: bool,
) -> None:
    """Quantize a network to INT8 and write a bundle.

    MODEL is a name (`quantkit models` lists them), a model card (.toml), or an MXNet checkpoint
    (its prefix, or the -symbol.json file). Operators are fused first, and the fused network is
    compared with the original on real images; then the ranges of its tensors are measured on the
    sample images, weights and biases are adapted to rounding, and the INT8 network is compared with FP32.
    """
    check_not_bundle(model)
    out = out or default_bundle(model)
    check_bundle_target(out, force)
    data = calib_data or "builtin"
    table = _prepared(terminal, data, calib, calib_table, method)
    from quantkit.cli.networks import load
    from quantkit.engine.build import check_int8
    from quantkit.pipeline import DEFAULT_METHOD, calibrate, emit, fuse_model, plan, recover
    from quantkit.quantization.exclude import excluded_nodes

    check_int8()
    loaded = load(terminal, model, weights, input_shape)
    terminal.stage("fusing operators and comparing with the original")
    source = fuse_model(loaded, data)
    excluded_nodes(source.fused, exclude)
    if table is None:
        table = calibrate(source, data, calib, method or DEFAULT_METHOD, terminal.progress)
    decided = plan(source, table, exclude, activations)  # type: ignore[arg-type]
    recovered = recover(source, table, decided, data, preset, terminal.progress)
    quantized = emit(source, table, recovered, data, terminal.progress)
    terminal.stage(f"writing {out}")
    with terminal.work.writing(out):
        quantized.save(out, force)
    _report(terminal, model, quantized, out, no_latency)


def _prepared(
    terminal: Terminal, data: str, calib: Optional[int], table: Optional[Path], method: Optional[str]
) -> Optional[CalibrationTable]:
    """Find the user's mistakes before the long work; the table to use, if one is given."""
    from quantkit.calibration.methods import observer
    from quantkit.calibration.table import read_table
    from quantkit.cli.networks import check_count

    check_count(data, calib)
    if table is None:
        if method is not None:
            observer(method)
        return None
    for option, given in (("--calib", calib), ("--method", method)):
        if given is not None:
            raise UserError(
                f"--calib-table takes ranges that were measured before, so {option} has nothing to do; "
                "leave one of them out (--calib-data may stay: the INT8 network is compared with FP32 on it)"
            )
    return read_table(table)


def _report(terminal: Terminal, model: str, quantized: QuantizedModel, out: Path, no_latency: bool) -> None:
    from quantkit.cli.summary import latencies, measured_kernels, quantize_result, quantize_tables

    terminal.stage("reading off the kernels that the engine runs")
    kernels = measured_kernels(out, quantized)
    milliseconds = None
    if not no_latency:
        terminal.stage("measuring latency (FP32, FP32 fused and INT8 in turns)")
        milliseconds = latencies(quantized.source, quantized.graph)
    result = quantize_result(quantized, out, kernels, milliseconds)
    terminal.show(result, *quantize_tables(result, model))
