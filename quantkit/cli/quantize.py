"""``quantkit quantize``: from an FP32 network to an INT8 bundle, with its measured accuracy and speed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import click

from quantkit.cli.calibration import tell_calibration
from quantkit.cli.option_groups import (
    BundleWriting,
    Calibrating,
    Loading,
    MixedPrecisionGoal,
    Planning,
    Preprocessing,
    class_scores_option,
)
from quantkit.cli.options import Verb, collected, given, option, output_options
from quantkit.cli.targets import check_bundle_target, check_not_bundle, default_bundle
from quantkit.cli.terminal import Terminal
from quantkit.errors import UserError

if TYPE_CHECKING:
    from quantkit.api import Quantized
    from quantkit.bundle.quantized_model import QuantizedModel
    from quantkit.bundle.summary import Latency
    from quantkit.calibration.table import CalibrationTable
    from quantkit.mixed_precision.journal import Journal
    from quantkit.quantization.config import QuantizationConfig
    from quantkit.quantization.ptq_config import PresetName

GOAL_MISSED = 4


@dataclass(frozen=True)
class TableOrCalibrating(Calibrating):
    """A new calibration, or an earlier one."""

    calib_table: Optional[Path] = option(
        "--calib-table",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="An earlier calibration, instead of a new one.",
    )


@dataclass(frozen=True)
class Configuration(Planning):
    """The options of a ``QuantizationConfig`` besides calibration and goal, and a file that holds all of them."""

    preset: Optional[PresetName] = option(
        "--preset",
        type=click.Choice(["none", "fast", "balanced", "best"]),
        help="How much to do against the loss of accuracy. fast: biases and channel shift, in seconds. balanced: "
        "weights too, below a minute for ResNet-50. best: the same with up to 128 samples. The INT8 network is as "
        "fast with all.  [default: balanced; none with random weights]",
    )
    config: Optional[Path] = option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A configuration in TOML, such as a bundle's config.toml; options given beside it take precedence.",
    )


@dataclass(frozen=True)
class Target(BundleWriting):
    """The bundle to write, and in which formats."""

    out: Optional[Path] = option(
        "--out",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="The folder to write.  [default: NAME-int8 in the current folder]",
    )
    formats: str = option(
        "--format",
        default="mxnet",
        show_default=True,
        metavar="mxnet|mxnet,onnx",
        help="What the bundle holds the INT8 network as: with onnx also as an ONNX file, for ONNX Runtime and "
        "OpenVINO.",
    )


@dataclass(frozen=True)
class Timing:
    """What is timed: the finished network, or every layer."""

    never_slower: bool = option(
        "--never-slower",
        is_flag=True,
        help="Keep INT8 only where it is faster on this machine, or where its neighbours need it: layers and groups "
        "are timed in INT8 and in FP32 as they stand in the network, for --search-minutes at most. Where INT8 is not "
        "faster than fused FP32 at last, every layer stays in FP32.",
    )
    speed_batch: Optional[int] = option(
        "--speed-batch",
        type=click.IntRange(min=1),
        metavar="N",
        help="How many samples a run has while --never-slower times it.  [default: 1]",
    )
    no_latency: bool = option("--no-latency", is_flag=True, help="Skip measuring latency, which takes a few seconds.")


@click.command(
    cls=Verb,
    examples=(
        "quantkit quantize resnet50 --calib 10",
        "quantkit quantize resnet50 --calib 100 --calib-data photos/ --method entropy",
        "quantkit quantize my/net --calib-data data.npz --input-shape 3,224,224 --out net-int8",
        "quantkit quantize net.onnx --calib-data photos/ --resize 256 --crop 224 --mean 0.5 --std 0.5",
        "quantkit quantize mobilenet1.0 --exclude '*_dense0*' --exclude Pooling",
        "quantkit quantize mobilenetv2_1.0 --calib 100 --calib-data photos/ --preset best",
        "quantkit quantize mobilenetv2_1.0 --max-drop 0.3 --eval-data photos:test --min-speedup 2.5",
        "quantkit quantize mobilenet0.25 --never-slower",
        "quantkit quantize resnet50 --calib-table table.json --force",
        "quantkit quantize resnet50 --format mxnet,onnx",
    ),
)
@click.argument("model")
@collected("calibration", TableOrCalibrating)
@collected("configuration", Configuration)
@collected("wanted", MixedPrecisionGoal)
@collected("loading", Loading)
@collected("preprocessing", Preprocessing)
@class_scores_option
@collected("target", Target)
@collected("timing", Timing)
@output_options
@click.pass_context
def quantize(
    context: click.Context,
    terminal: Terminal,
    model: str,
    calibration: TableOrCalibrating,
    configuration: Configuration,
    wanted: MixedPrecisionGoal,
    loading: Loading,
    preprocessing: Preprocessing,
    classes: Optional[bool],
    target: Target,
    timing: Timing,
) -> None:
    """Quantize a network to INT8 and write a bundle.

    MODEL is a name (`quantkit models` lists them), a model card (.toml), an MXNet checkpoint
    (its prefix, or the -symbol.json file), or an ONNX file (.onnx). Operators are fused first, and the fused network is
    compared with the original on real images; then the ranges of its tensors are measured on the
    sample images (or taken from a table that ships for just these weights, where you give no images),
    weights and biases are adapted to rounding, and the INT8 network is compared with FP32.

    With a goal, --max-drop or --min-speedup or both, layers are returned to FP32 where that buys the most
    accuracy per measured millisecond. A search that was interrupted goes on where it was when the same command is
    given again. Exit code 4: the goal was not met; the best network found is written all the same.

    Latency is measured at last, and whether INT8 is faster than fused FP32 is said. With --never-slower it is never
    slower; with a --max-drop as well, what is faster in FP32 is returned first.
    """
    check_not_bundle(model)
    out = target.out or default_bundle(model)
    check_bundle_target(out, target.force)
    from quantkit.backends.mxnet.compat import check_installed

    check_installed()
    formats = tuple(each.strip() for each in target.formats.split(","))
    config = _config(calibration, configuration, wanted, timing)
    data = calibration.calib_data or "builtin"
    table = _prepared(calibration, config, data)
    _check_timing(config, timing)
    _check_goal(terminal, data, config, wanted, timing)
    from quantkit.api import run_stages
    from quantkit.backends.mxnet.build import check_int8
    from quantkit.bundle.quantized_model import check_formats
    from quantkit.cli.networks import load

    check_formats(formats)
    check_int8()
    loaded = load(terminal, model, loading, preprocessing, classes)
    terminal.stage("fusing operators and comparing with the original")
    quantized = run_stages(
        loaded,
        calibration.calib_data,
        config,
        wanted.eval_data,
        table,
        terminal.progress,
        lambda ranges: tell_calibration(terminal, ranges, config.num_samples),
        _begun(terminal),
    )
    terminal.stage(f"writing {out}")
    with terminal.work.writing(out):
        quantized.network.save(out, target.force, formats, keep_sample=target.keep_sample)
    _report(terminal, model, loading.weights, quantized, out, timing)
    mixed = quantized.network.mixed
    if mixed is not None and not mixed.met:
        context.exit(GOAL_MISSED)


def _config(
    calibration: TableOrCalibrating, configuration: Configuration, wanted: MixedPrecisionGoal, timing: Timing
) -> QuantizationConfig:
    """The configuration of the file, with the options given beside it."""
    from quantkit.quantization.config import QuantizationConfig
    from quantkit.quantization.goal import Goal

    config = QuantizationConfig() if configuration.config is None else QuantizationConfig.read(configuration.config)
    goals = {"max_drop": wanted.max_drop, "min_speedup": wanted.min_speedup}
    asked = {name: value for name, value in goals.items() if value is not None}
    values: dict[str, object] = {
        "num_samples": calibration.calib,
        "method": calibration.method,
        "exclude": configuration.exclude or None,
        "dtype": configuration.dtype,
        "preset": configuration.preset,
        "goal": Goal(**{**(asdict(config.goal) if config.goal else {}), **asked}) if asked else None,
        "search_minutes": wanted.search_minutes,
        "never_slower": timing.never_slower or None,
        "speed_batch": timing.speed_batch,
    }
    changed = {name: value for name, value in values.items() if value is not None}
    if "preset" in changed:
        changed["algorithms"] = None
    return replace(config, **changed)  # type: ignore[arg-type]


def _prepared(calibration: TableOrCalibrating, config: QuantizationConfig, data: str) -> Optional[CalibrationTable]:
    """Check calibration options before any long work; return the table to use, if one is given."""
    from quantkit.calibration.table import read_table
    from quantkit.cli.networks import check_count

    # Without named data, a shipped table may be used, which needs none.
    check_count(data, calibration.calib if calibration.calib_data is None else config.num_samples)
    if calibration.calib_table is None:
        return None
    for name, value in (("--calib", calibration.calib), ("--method", calibration.method)):
        if value is not None:
            raise UserError(
                f"--calib-table takes ranges that were measured before, so {name} has no effect; "
                "leave one of them out (--calib-data may stay: the INT8 network is compared with FP32 on it)"
            )
    return read_table(calibration.calib_table)


def _check_timing(config: QuantizationConfig, timing: Timing) -> None:
    if timing.no_latency and config.never_slower:
        raise UserError("--never-slower is measured in milliseconds; leave --no-latency out")


def _check_goal(
    terminal: Terminal, data: str, config: QuantizationConfig, wanted: MixedPrecisionGoal, timing: Timing
) -> None:
    """Check a goal, or that no options for one are given without it."""
    from quantkit.cli.networks import check_count

    if config.goal is None:
        for name in given(wanted):
            if name != "--search-minutes":
                raise UserError(f"{name} is for a goal; give --max-drop or --min-speedup as well, or leave it out")
            if not config.never_slower:
                raise UserError(
                    f"{name} is for a search; give --max-drop, --min-speedup or --never-slower as well, or leave it out"
                )
        return
    if config.goal.max_drop is not None and wanted.eval_data is None:
        raise UserError(
            "--max-drop needs samples to measure the drop on, other than those that are calibrated with; "
            "give some with --eval-data"
        )
    if timing.no_latency:
        raise UserError("a goal is reached by measured milliseconds; leave --no-latency out")
    if wanted.eval_data is not None:
        check_count(wanted.eval_data, None)
        if wanted.eval_data == data:
            terminal.warn(
                f"--eval-data and --calib-data are both {data}: INT8 looks better on samples that it was calibrated "
                "with; give others with --eval-data"
            )


def _begun(terminal: Terminal) -> Callable[[Journal], None]:
    """The callback for the start of the search: it reports and records what is kept."""

    def begun(journal: Journal) -> None:
        if journal.resumed:
            terminal.tell(f"resuming: {journal.resumed} measurements made before")
        terminal.work.kept = "nothing was written; the measurements are kept, the same command goes on from there"

    return begun


def _report(terminal: Terminal, model: str, weights: str, quantized: Quantized, out: Path, timing: Timing) -> None:
    from quantkit.bundle.summary import measured_kernels, quantize_summary
    from quantkit.cli.mixed import mixed_tables
    from quantkit.cli.summary import quantize_tables
    from quantkit.data.sample_noun import sample_noun
    from quantkit.mixed_precision.summary import search_summary

    network, search, calibration = quantized.network, quantized.search, quantized.calibration
    terminal.stage("reading off the kernels that the engine runs")
    kernels = measured_kernels(out, network)
    latency = None if timing.no_latency else _latency(terminal, network)
    result = quantize_summary(network, out, kernels, latency, calibration.origin, calibration.data.name)
    if search is not None and network.speed is None:
        result["latency_ms"] = dict(search.chosen.milliseconds)
    if search is None and network.mixed is not None:
        result["goal"] = asdict(network.mixed)
    noun = sample_noun(network.source.model.input_shape)
    tables = quantize_tables(result, network.agreement, model, weights, noun)
    if search is not None:
        result["search"] = search_summary(search)
        tables[2:2] = mixed_tables(result["search"], noun)
    terminal.show(result, *tables)


def _latency(terminal: Terminal, network: QuantizedModel) -> Latency:
    """The latencies of a network, as they were proven or measured now."""
    from quantkit.bundle.summary import Latency, latency_beside_fp32

    if network.speed is not None:
        return Latency(network.speed.latencies, network.speed.ratio)
    terminal.stage("measuring latency (FP32, FP32 fused and INT8 in turns)")
    return latency_beside_fp32(network)
