"""Options that several verbs share."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, Optional

import click

from quantkit.cli.terminal import Terminal
from quantkit.cli.work import Work

Command = Callable[..., None]

METHODS_HELP = (
    "How ranges are chosen: minmax, percentile (percentile:99.9 for another than 99.99), entropy or mse.  "
    "[default: mse]"
)


class Shape(click.ParamType):
    """``3,224,224``: channels, height, width."""

    name = "C,H,W"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> tuple[int, ...]:
        """The three numbers."""
        if isinstance(value, tuple):
            return value
        fields = [field.strip() for field in value.replace("x", ",").split(",")]
        if len(fields) != 3 or not all(re.fullmatch(r"0*[1-9]\d{0,8}", field, re.ASCII) for field in fields):
            self.fail(f"{value!r} is not channels, height, width, such as 3,224,224", param, ctx)
        return tuple(int(field) for field in fields)


class Verb(click.Command):
    """A command whose help shows examples before the options."""

    def __init__(self, *args: Any, examples: Sequence[str], **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        write_examples(formatter, self.examples)


def write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    """Write commands into a help text, each on a line of its own."""
    with formatter.section("Examples"):
        for example in examples:
            formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


def output_options(command: Command) -> Command:
    """Add --json and --quiet, and call the command with a ``Terminal`` in first place."""

    def speaking(context: click.Context, as_json: bool, quiet: bool, **options: Any) -> None:
        work = context.find_object(Work) or Work()
        terminal = Terminal(work, as_json, quiet)
        with warnings.catch_warnings():
            terminal.take_warnings()
            command(terminal, **options)

    wrapped: Command = speaking
    update_wrapper(wrapped, command)
    as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
    quiet = click.option("--quiet", is_flag=True, help="Print neither progress nor tables; errors still appear.")
    return as_json(quiet(click.pass_context(wrapped)))


def model_options(command: Command) -> Command:
    """Add --weights and --input-shape."""
    weights = click.option(
        "--weights",
        default="auto",
        show_default=True,
        metavar="auto|pretrained|random|FILE",
        help="auto: trained weights, random ones where none can be reached; pretrained: fail instead; "
        "FILE: .params, .npz or .safetensors. ONNX files have their own.",
    )
    shape = click.option(
        "--input-shape", type=Shape(), help="Channels, height, width; where unknown or other than usual."
    )
    return weights(shape(command))


def sample_options(default_count: str) -> Callable[[Command], Command]:
    """Add --calib and --calib-data."""

    def added(command: Command) -> Command:
        count = click.option(
            "--calib",
            type=click.IntRange(min=1),
            metavar="N",
            help=f"How many images to calibrate with.  [default: {default_count}]",
        )
        data = click.option(
            "--calib-data",
            metavar="SPEC",
            help="Sample images: a folder (FOLDER:SPLIT for one split of its labels.csv), .npz, .rec, builtin "
            "(photographs), digits:train.  [default: builtin]",
        )
        return count(data(command))

    return added


exclude_option = click.option(
    "--exclude",
    multiple=True,
    metavar="X",
    help="Keep in FP32: an original node's name, a glob over the names, or an operator type. Repeatable.",
)

activations_option = click.option(
    "--activations",
    type=click.Choice(["auto", "int8", "uint8"]),
    default="auto",
    show_default=True,
    help="Type of quantized inputs; auto takes uint8 where nothing is negative.",
)

preset_option = click.option(
    "--preset",
    type=click.Choice(["none", "fast", "balanced", "best"]),
    help="How much to do against the loss of accuracy. fast: biases and the middle of ranges, seconds. balanced: "
    "weights too, about a minute for large networks. best: the same with up to 128 images. The INT8 network is as fast "
    "with all.  [default: balanced; none with random weights]",
)


def goal_options(command: Command) -> Command:
    """Add --max-drop, --eval-data, --min-speedup and --search-budget."""
    drop = click.option(
        "--max-drop",
        type=click.FloatRange(min=0, max=100),
        metavar="POINTS",
        help="Return layers to FP32 until INT8 loses at most this many points of top-1 accuracy on --eval-data (of "
        "agreement with FP32, where the images have no labels), such as 0.3.",
    )
    data = click.option("--eval-data", metavar="SPEC", help="Images to measure the drop on, other than --calib-data.")
    speed = click.option(
        "--min-speedup",
        type=click.FloatRange(min=0, min_open=True),
        metavar="RATIO",
        help="Return layers to FP32 only as far as the network stays this many times as fast as FP32. Without "
        "--max-drop: as many as that allows.",
    )
    budget = click.option(
        "--search-budget",
        type=click.FloatRange(min=0),
        metavar="MINUTES",
        help="How long to search for layers to return; the best network found is written.  [default: 10]",
    )
    return drop(data(speed(budget(command))))


force_option = click.option("--force", is_flag=True, help="Replace what an earlier run wrote there.")

keep_sample_option = click.option(
    "--keep-sample",
    is_flag=True,
    help="Store the first of your images in the bundle, as the sample that `verify` runs. Without it, an image that "
    "quantkit has anyway (a photograph, or one of the digits if these are the images) or noise is stored, and nothing "
    "of yours.",
)
