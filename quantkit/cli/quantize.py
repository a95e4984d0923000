"""``quantkit quantize``: from an FP32 network to an INT8 bundle, with its measured accuracy and speed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import click

from quantkit.cli.calibration import tell_calibration
from quantkit.cli.cluster import OnCluster, executor_of
from quantkit.cli.option_groups import Loading, MixedPrecisionGoal, Outputs, Preprocessing
from quantkit.cli.options import Verb, collected, output_options
from quantkit.cli.quantize_options import (
    Configuration,
    TableOrCalibrating,
    Target,
    Timing,
    check_goal,
    check_timing,
    configuration_of,
    given_table,
)
from quantkit.cli.targets import check_bundle_target, check_not_bundle, default_bundle
from quantkit.cli.terminal import Terminal

if TYPE_CHECKING:
    from quantkit.bundle.latency import Latency
    from quantkit.bundle.quantized_model import QuantizedModel
    from quantkit.mixed_precision.journal import Journal
    from quantkit.stages import Quantized

GOAL_MISSED = 4


@click.command(
    cls=Verb,
    examples=(
        "quantkit quantize resnet50 --calib 10",
        "quantkit quantize resnet50 --calib 100 --calib-data photos/ --method entropy",
        "quantkit quantize my/net --calib-data data.npz --input-shape 3,224,224 --out net-int8",
        "quantkit quantize net.onnx --calib-data photos/ --resize 256 --crop 224 --mean 0.5 --std 0.5",
        "quantkit quantize detector.onnx --task detection --calib-data photos/ --fit stretch",
        "quantkit quantize mobilenet1.0 --exclude '*_dense0*' --exclude Pooling",
        "quantkit quantize mobilenetv2_1.0 --calib 100 --calib-data photos/ --preset best",
        "quantkit quantize mobilenetv2_1.0 --max-drop 0.3 --eval-data photos:test --min-speedup 2.5",
        "quantkit quantize ssd_300_vgg16_atrous_voc --max-drop 0.3 --eval-data VOCdevkit/VOC2007:test",
        "quantkit quantize mobilenet0.25 --never-slower",
        "quantkit quantize resnet50 --calib-table table.json --force",
        "quantkit quantize resnet50 --format mxnet,onnx",
    ),
)
@click.argument("model")
@collected("calibration", TableOrCalibrating)
@collected("configuration", Configuration)
@collected("wanted", MixedPrecisionGoal)
@collected("on_cluster", OnCluster)
@collected("loading", Loading)
@collected("preprocessing", Preprocessing)
@collected("outputs", Outputs)
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
    on_cluster: OnCluster,
    loading: Loading,
    preprocessing: Preprocessing,
    outputs: Outputs,
    target: Target,
    timing: Timing,
) -> None:
    """Quantize a network to INT8 and write a bundle.

    MODEL is a name (`quantkit models` lists them), a model card (.toml), an MXNet checkpoint
    (its prefix, or the -symbol.json file), or an ONNX file (.onnx). Operators are fused first, and the fused network is
    compared with the original on real images. Then the ranges of its tensors are measured on the samples (or taken
    from a table that ships for exactly these weights, if you give no samples), weights and biases are adapted to
    rounding, and the INT8 network is compared with FP32.

    With a goal (--max-drop, --min-speedup or both), layers return to FP32 where that gains the most accuracy per
    measured millisecond. If the search is interrupted, the same command continues where it stopped. Exit code 4: the
    goal was not met; the best network found is written all the same.

    At the end latency is measured, with a notice if INT8 is not faster than FP32, fused and unfused. With
    --never-slower, layers that are faster in FP32 return to it, and INT8 is kept only if the network as a whole is
    faster than FP32. With --max-drop as well, layers return for speed first.
    """
    check_not_bundle(model)
    out = target.out or default_bundle(model)
    check_bundle_target(out, target.force)
    from quantkit.backends.mxnet.compat import check_installed

    check_installed()
    formats = tuple(each.strip() for each in target.formats.split(","))
    config = configuration_of(calibration, configuration, wanted, timing)
    data = calibration.calib_data or "builtin"
    table = given_table(calibration, config, data)
    check_timing(config, timing)
    check_goal(terminal, data, config, wanted, timing)
    from quantkit.backends.mxnet.build import check_int8
    from quantkit.bundle.quantized_model import check_formats
    from quantkit.cli.networks import load
    from quantkit.stages import run_stages

    check_formats(formats)
    check_int8()
    loaded = load(terminal, model, loading, preprocessing, outputs.classes, outputs.task)
    terminal.stage("fusing operators and comparing with the original")
    with executor_of(terminal, on_cluster) as executor:
        quantized = run_stages(
            loaded,
            calibration.calib_data,
            config,
            wanted.eval_data,
            table,
            terminal.progress,
            lambda ranges: tell_calibration(terminal, ranges, config.num_samples),
            _begun(terminal),
            executor,
            calibration.skip_bad,
        )
        terminal.stage(f"writing {out}")
        with terminal.work.writing(out):
            quantized.network.save(out, target.force, formats, keep_sample=target.keep_sample)
    _report(terminal, model, loading, preprocessing.fit, quantized, out, timing)
    terminal.warn_of_left_out(quantized.network.left_out)
    mixed = quantized.network.mixed
    if mixed is not None and not mixed.met:
        context.exit(GOAL_MISSED)


def _begun(terminal: Terminal) -> Callable[[Journal], None]:
    """The callback for the start of the search: it reports and records what is kept."""

    def begun(journal: Journal) -> None:
        if journal.resumed:
            terminal.tell(f"resuming: {journal.resumed} measurements made before")
        terminal.work.kept = "nothing was written; the measurements are kept, the same command goes on from there"

    return begun


def _report(
    terminal: Terminal,
    model: str,
    loading: Loading,
    fit: Optional[str],
    quantized: Quantized,
    out: Path,
    timing: Timing,
) -> None:
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
    tables = quantize_tables(result, network.agreement, model, loading, fit, noun)
    if search is not None:
        result["search"] = search_summary(search)
        tables[2:2] = mixed_tables(result["search"], noun)
    terminal.show(result, *tables)


def _latency(terminal: Terminal, network: QuantizedModel) -> Latency:
    """The latencies of a network, as they were proven or measured now."""
    from quantkit.bundle.latency import Latency, measure_latency

    if network.speed is not None:
        return Latency(network.speed.latencies, network.speed.reference, network.speed.ratio)
    terminal.stage("measuring latency (FP32, FP32 fused and INT8 in turns)")
    return measure_latency(network)
