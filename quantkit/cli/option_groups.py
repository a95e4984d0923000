"""Groups of options that several commands share; each group is one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional, Union

import click

from quantkit.cli.option_types import SIDE, TASK, Channels, InputShape, Number, one_or_by_name
from quantkit.cli.options import option

if TYPE_CHECKING:
    from quantkit.data.boxes import BoxCorners
    from quantkit.models.families import Task
    from quantkit.models.states_as_inputs import StatesKind
    from quantkit.quantization.plan import TensorDtype


@dataclass(frozen=True)
class Loading:
    """Which weights a network gets, and the shape of its input."""

    weights: str = option(
        "--weights",
        default="auto",
        show_default=True,
        metavar="auto|pretrained|random|FILE",
        help="auto: trained weights, or random ones (`finetune`: an error) if none can be reached; pretrained: trained "
        "weights or an error; FILE: .params, .npz or .safetensors. ONNX files hold their own.",
    )
    input_shape: Union[tuple[int, ...], dict[str, tuple[int, ...]], None] = option(
        "--input-shape",
        type=InputShape(),
        multiple=True,
        callback=one_or_by_name,
        help="The shape of one input, if it is unknown or not the usual one: channels, height, width of images; the "
        "length of vectors; steps, features of sequences, or steps of token ids. Of several inputs: once for "
        "each, with its name, such as left=3,32,32.",
    )
    layout: Optional[str] = option(
        "--layout",
        metavar="NTC|NT|TNC|TN",
        help="The layout of sequences: TNC or TN if the network reads (steps, batch, ...). What is written reads the "
        "batch first.  [default: NTC, NT, or the card's]",
    )
    states: StatesKind = option(
        "--states",
        type=click.Choice(["zero", "inputs"]),
        default="zero",
        show_default=True,
        help="The states of recurrent layers. zero: every sequence begins at zero. inputs: what is written reads "
        "initial states and returns final ones, so that a sequence can be run in pieces.",
    )
    box_corners: Optional[BoxCorners] = option(
        "--box-corners",
        type=click.Choice(["edges", "pixels"]),
        help="Of detectors in ONNX files and checkpoints: pixels if right and bottom are the last pixel in a box, as "
        "GluonCV trains SSD, YOLOv3, CenterNet and Faster R-CNN.  [default: edges, or the card's]",
    )


@dataclass(frozen=True)
class Preprocessing:
    """How photographs become the network's input, where the card does not say or should not apply."""

    resize: Optional[int] = option(
        "--resize",
        type=SIDE,
        metavar="PIXELS",
        help="Preprocessing, for networks without a card (ONNX files, checkpoints) or instead of the card's: first "
        "scale the short side of images to this.",
    )
    crop: Optional[int] = option("--crop", type=SIDE, metavar="PIXELS", help="Then cut a square of this side.")
    fit: Optional[str] = option(
        "--fit",
        type=click.Choice(["stretch", "letterbox"]),
        help="Instead of --resize and --crop: scale the whole image to the input, each side on its own, or in "
        "proportion with black bars. Detectors need this to see whole images.",
    )
    rotate180: Optional[bool] = option("--rotate180/--no-rotate180", default=None, help="Rotate images by 180 degrees.")
    scale: Optional[float] = option(
        "--scale", type=Number(above_zero=True), help="Divide pixels by this.  [default: 255, or the card's]"
    )
    mean: Optional[tuple[float, ...]] = option(
        "--mean", type=Channels(), help="Then subtract this from each channel.  [default: 0, or the card's]"
    )
    std: Optional[tuple[float, ...]] = option(
        "--std",
        type=Channels(above_zero=True),
        help="Finally divide each channel by this.  [default: 1, or the card's]",
    )


_SKIP_BAD_HELP = (
    "Leave out up to N images (of folders, .rec files, shards) that are damaged or cannot be used. They are named at "
    "the end, and with --json."
)


def skip_bad_option(text: str = _SKIP_BAD_HELP) -> int:
    """The field for how many samples may be left out; ``text`` is the help."""
    bad: int = option(
        "--skip-bad",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        metavar="N",
        help=text,
    )
    return bad


@dataclass(frozen=True)
class Calibrating:
    """Which samples a network is calibrated with, and how ranges are chosen."""

    calib: Optional[int] = option(
        "--calib",
        type=click.IntRange(min=1),
        metavar="N",
        help="How many samples to calibrate with.  [default: 32, or all if there are fewer]",
    )
    calib_data: Optional[str] = option(
        "--calib-data",
        metavar="SPEC",
        help="Samples: a folder of images (FOLDER:SPLIT for one split of its labels.csv or of VOC), COCO .json, .npz, "
        ".npy, .rec, s3://BUCKET/SHARDS, builtin (photographs), digits:train, scenes:train.  [default: builtin; "
        "`quantize` uses a table that ships for the weights, if there is one]",
    )
    method: Optional[str] = option(
        "--method",
        metavar="METHOD",
        help="How ranges are chosen: minmax, percentile (99.99 % unless given, as in percentile:99.9), entropy or "
        "mse.  [default: mse]",
    )
    skip_bad: int = skip_bad_option()


@dataclass(frozen=True)
class Planning:
    """What stays in FP32, and the type of quantized inputs."""

    exclude: tuple[str, ...] = option(
        "--exclude",
        multiple=True,
        metavar="X",
        help="Keep in FP32: an original node's name, a glob over the names, or an operator type. Repeatable.",
    )
    dtype: Optional[TensorDtype] = option(
        "--dtype",
        type=click.Choice(["auto", "int8", "uint8"]),
        help="Type of quantized inputs; auto takes uint8 where nothing is negative.  [default: auto]",
    )


@dataclass(frozen=True)
class MixedPrecisionGoal:
    """What a network must keep, and how long to search for one that does."""

    max_drop: Optional[float] = option(
        "--max-drop",
        type=click.FloatRange(min=0, max=100),
        metavar="POINTS|PERCENT",
        help="Return layers to FP32 until INT8 loses at most this many points on --eval-data, such as 0.3: of top-1, "
        "for detectors of mAP, for segmentation networks of mIoU, without labels or annotations of agreement with "
        "FP32. For language models: until perplexity rises by at most this many percent.",
    )
    eval_data: Optional[str] = option(
        "--eval-data",
        metavar="SPEC",
        help="Samples to measure the drop on, other than --calib-data; for detectors and segmentation networks as for "
        "`quantkit evaluate`.",
    )
    min_speedup: Optional[float] = option(
        "--min-speedup",
        type=click.FloatRange(min=0, min_open=True),
        metavar="RATIO",
        help="Return layers to FP32 only as long as the network stays this many times as fast as FP32. Without "
        "--max-drop: as many as that allows.",
    )
    search_minutes: Optional[float] = option(
        "--search-minutes",
        type=click.FloatRange(min=0),
        metavar="MINUTES",
        help="How long to search for layers to return to FP32, for a goal and for --never-slower each; the best "
        "network found by then is written.  [default: 10]",
    )


@dataclass(frozen=True)
class BundleWriting:
    """How a bundle is written."""

    force: bool = option("--force", is_flag=True, help="Replace what an earlier run wrote there.")
    keep_sample: bool = option(
        "--keep-sample",
        is_flag=True,
        help="Store the first of your samples in the bundle, as the sample that `verify` runs. Without this, a "
        "built-in image or noise is stored, and none of your samples.",
    )


_CLASSES_HELP = (
    "Whether the (first) output is a row of class scores.  [default: recognized by the network's last operators, "
    "its labels and those of the samples]"
)

class_scores_option = click.option("--classes/--no-classes", "classes", default=None, help=_CLASSES_HELP)


@dataclass(frozen=True)
class Outputs:
    """What a network's outputs are, where nobody could know."""

    classes: Optional[bool] = option("--classes/--no-classes", default=None, help=_CLASSES_HELP)
    task: Optional[Task] = option(
        "--task",
        type=TASK,
        help="What the network is for; its outputs are judged accordingly. For ONNX files and checkpoints, or to "
        "override the card.  [default: the card's]",
    )
