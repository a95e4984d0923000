"""The options of ``quantkit quantize``: what they ask for, and which of them do not go together."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import click

from quantkit.cli.option_groups import BundleWriting, Calibrating, MixedPrecisionGoal, Planning
from quantkit.cli.options import given, option
from quantkit.cli.terminal import Terminal
from quantkit.errors import UserError

if TYPE_CHECKING:
    from quantkit.calibration.table import CalibrationTable
    from quantkit.quantization.config import QuantizationConfig
    from quantkit.quantization.ptq_config import PresetName


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
        help="How much to do to reduce the loss of accuracy. fast: biases and channel shift, in seconds. balanced: "
        "weights too, in less than a minute for ResNet-50. best: the same with up to 128 samples. The INT8 network is "
        "equally fast with all.  [default: balanced; none with random weights]",
    )
    config: Optional[Path] = option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A configuration in TOML, such as a bundle's config.toml; options on the command line override it.",
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
        help="The formats of the INT8 network in the bundle; with onnx, also an ONNX file, for ONNX Runtime and "
        "OpenVINO.",
    )


@dataclass(frozen=True)
class Timing:
    """What is timed: the finished network, or every layer."""

    never_slower: bool = option(
        "--never-slower",
        is_flag=True,
        help="Return layers and groups of layers to FP32 that are proven to be faster there on this machine, within "
        "--search-minutes; the others stay in INT8. If the network as a whole is not proven to be faster than FP32, "
        "every layer stays in FP32. MXNet is timed; other engines (--format) get the same layers.",
    )
    speed_batch: Optional[int] = option(
        "--speed-batch",
        type=click.IntRange(min=1),
        metavar="N",
        help="How many samples a run has while --never-slower times it.  [default: 1]",
    )
    no_latency: bool = option("--no-latency", is_flag=True, help="Skip measuring latency, which takes a few seconds.")


def configuration_of(
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


def given_table(calibration: TableOrCalibrating, config: QuantizationConfig, data: str) -> Optional[CalibrationTable]:
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


def check_timing(config: QuantizationConfig, timing: Timing) -> None:
    """Check that what is proven by milliseconds is timed."""
    if timing.no_latency and config.never_slower:
        raise UserError("--never-slower is measured in milliseconds; leave --no-latency out")


def check_goal(
    terminal: Terminal, data: str, config: QuantizationConfig, wanted: MixedPrecisionGoal, timing: Timing
) -> None:
    """Check a goal, or that no options for one are given without it."""
    from quantkit.cli.networks import check_count
    from quantkit.data.annotated_sources import is_coco

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
        # A file of COCO is read with the network, whose classes it must have.
        if not is_coco(wanted.eval_data):
            check_count(wanted.eval_data, None)
        if wanted.eval_data == data:
            terminal.warn(
                f"--eval-data and --calib-data are both {data}: INT8 looks better on samples that it was calibrated "
                "with; give others with --eval-data"
            )
