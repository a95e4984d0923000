"""The options of a training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import click

from quantkit.cli.option_groups import skip_bad_option
from quantkit.cli.options import option
from quantkit.host.threads import MOST_DECODERS

if TYPE_CHECKING:
    from quantkit.training.launch import KVStoreName


@dataclass(frozen=True)
class TrainingSamples:
    """What a network learns from."""

    train: str = option(
        "--train",
        required=True,
        metavar="SPEC",
        help="Labelled samples: a folder with a folder per class, or with a labels.csv (FOLDER:SPLIT for one split), "
        ".rec, .npz, shards, digits:train. With --qat they need no labels.",
    )
    val: Optional[str] = option(
        "--val",
        metavar="SPEC",
        help="Other labelled samples, on which each epoch is judged; the best one is written. With --qat they need no "
        "labels.",
    )
    classes: Optional[int] = option(
        "--classes",
        type=click.IntRange(min=2),
        metavar="N",
        help="The number of classes of the samples; the network gets a new last layer.  [default: it keeps its own]",
    )
    labels: Optional[str] = option(
        "--labels",
        metavar="FILE|A,B,...",
        help="With --classes, their names: a text file with one a line, or the names themselves.  [default: those of "
        "the folders, if there is one per class]",
    )
    workers: Optional[int] = option(
        "--workers",
        type=click.IntRange(min=0, max=MOST_DECODERS),
        metavar="N",
        help="Threads that decode and vary images.  [default: one for each processor, 16 at most; one for "
        "images in arrays that the network reads with fewer than 128 x 128 pixels]",
    )
    skip_bad: int = skip_bad_option(
        "Replace up to N images of --train (of folders, .rec files, shards) that are damaged or cannot be used by the "
        "ones after them, and leave out up to N of --val; each of several instances as many. They are named at the "
        "end, and with --json."
    )


@dataclass(frozen=True)
class Aware:
    """Training of an INT8 network with its rounding."""

    qat: bool = option(
        "--qat",
        is_flag=True,
        help="Quantization-aware training: MODEL is an INT8 bundle, which learns what --reference computes, with its "
        "own rounding, clipping and scales in the loop.",
    )
    reference: Optional[str] = option(
        "--reference", metavar="MODEL", help="With --qat: the FP32 network that the bundle was made from."
    )
    distill: bool = option(
        "--distill/--no-distill",
        default=True,
        show_default=True,
        help="With --qat: learn the scores of --reference, or else the labels of the samples.",
    )


@dataclass(frozen=True)
class Parallel:
    """How a training is spread over the machine."""

    instances: Optional[str] = option(
        "--instances",
        metavar="N|core|node|NxM",
        help="Train in several processes, each bound to cores of its own, that share each batch: a number of them, one "
        "on each core or memory node, or another placement of `quantkit benchmark`.  [default: this process alone]",
    )

    kvstore: KVStoreName = option(
        "--kvstore",
        type=click.Choice(["dist_sync", "horovod"]),
        default="dist_sync",
        show_default=True,
        help="Through what instances add up gradients: MXNet's parameter server, or Horovod.",
    )
    compress: bool = option(
        "--compress",
        is_flag=True,
        default=False,
        help="With --kvstore horovod: send gradients as float16, half as many bytes.",
    )
    machines: int = option(
        "--machines",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        metavar="N",
        help="Train on N machines, each with as many instances; the same command runs on each, with another --machine.",
    )
    machine: int = option(
        "--machine",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        metavar="K",
        help="The number of this one.",
    )
    scheduler: Optional[str] = option(
        "--scheduler", metavar="HOST:PORT", help="With --machines: where machine 0 listens for the others."
    )


@dataclass(frozen=True)
class TrainedTarget:
    """Where a trained network goes, and what becomes of it."""

    out: Optional[Path] = option(
        "--out",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="The folder to write.  [default: NAME-finetuned, with --qat BUNDLE-qat]",
    )
    force: bool = option("--force", is_flag=True, help="Replace what an earlier run wrote there.")
    restart: bool = option("--restart", is_flag=True, help="Begin anew, even if an interrupted run left a checkpoint.")
    quantize: bool = option(
        "--quantize",
        is_flag=True,
        help="Go on to INT8: write the bundle DIR-int8, and compare its accuracy with FP32's.",
    )
    price_per_hour: Optional[float] = option(
        "--price-per-hour",
        type=click.FloatRange(min=0),
        metavar="PRICE",
        help="What an hour of this machine costs, in any currency: the cost of this run is stated.",
    )


@dataclass(frozen=True)
class Learning:
    """How a network learns."""

    epochs: Optional[int] = option(
        "--epochs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Passes over --train.  [default: 10, with --qat 6]",
    )
    batch_size: Optional[int] = option(
        "--batch-size", type=click.IntRange(min=1), metavar="N", help="Samples of a step.  [default: 32]"
    )
    optimizer: Optional[str] = option(
        "--optimizer",
        type=click.Choice(["sgd", "adam", "adamax"]),
        help="sgd is with momentum.  [default: sgd, with --qat adam]",
    )
    learning_rate: Optional[float] = option(
        "--learning-rate",
        type=click.FloatRange(min=0, min_open=True),
        metavar="RATE",
        help="For a batch of 256; it is scaled to the batch size, for sgd in proportion, else by the root.  [default: "
        "0.1 for sgd, 0.001 for adam, 0.002 for adamax]",
    )
    momentum: Optional[float] = option(
        "--momentum", type=click.FloatRange(0, 1, max_open=True), help="Of sgd.  [default: 0.9]"
    )
    weight_decay: Optional[float] = option(
        "--weight-decay",
        type=click.FloatRange(min=0),
        help="Of weights; biases and normalizations have none.  [default: 0.0001, with --qat 0]",
    )
    schedule: Optional[str] = option(
        "--schedule",
        type=click.Choice(["cosine", "step", "constant"]),
        help="How the rate falls; step divides it by 10 after 50 % and 75 % of the epochs.  [default: cosine]",
    )
    warmup_epochs: Optional[float] = option(
        "--warmup-epochs",
        type=click.FloatRange(min=0),
        metavar="N",
        help="The rate rises from 0 over so many epochs.  [default: 1, with --qat 0]",
    )
    label_smoothing: Optional[float] = option(
        "--label-smoothing",
        type=click.FloatRange(0, 1, max_open=True),
        metavar="SHARE",
        help="Spread this share of each target over all classes.  [default: 0]",
    )
    freeze: tuple[str, ...] = option(
        "--freeze",
        multiple=True,
        metavar="GLOB",
        help="Keep as they are: the operators and parameters of these names; body: all but the last layer. With --qat, "
        "names of parameters alone. Repeatable.",
    )
    patience: Optional[int] = option(
        "--patience",
        type=click.IntRange(min=1),
        metavar="N",
        help="End after so many epochs without a better result on --val.",
    )
    seed: Optional[int] = option(
        "--seed", type=click.IntRange(0, 2**31 - 1), help="The same gives the same weights.  [default: 0]"
    )


@dataclass(frozen=True)
class Varying:
    """How training images are varied."""

    smallest_crop: Optional[float] = option(
        "--smallest-crop",
        type=click.FloatRange(0.01, 1),
        metavar="SHARE",
        help="Cut out a part with at least this share of the image's area; 1: images as for inference.  [default: "
        "0.35; `quantkit finetune --qat`: 1]",
    )
    flip: Optional[bool] = option(
        "--flip/--no-flip",
        default=None,
        help="Mirror each image with a probability of one half; not for digits or letters.  [default: flip; "
        "`quantkit finetune --qat`: no-flip]",
    )
    colour: Optional[float] = option(
        "--colour",
        type=click.FloatRange(0, 1),
        metavar="SHARE",
        help="Change brightness, contrast and saturation by up to this.  [default: 0.2; `quantkit finetune --qat`: 0]",
    )
    mixup: Optional[float] = option(
        "--mixup",
        type=click.FloatRange(min=0),
        metavar="ALPHA",
        help="Mix samples in pairs, in shares of the Beta distribution with this parameter, such as 0.2; 0: never.  "
        "[default: 0]",
    )
