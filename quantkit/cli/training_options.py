"""The options of a training, and the configuration that they make."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Optional

import click

from quantkit.cli.options import option

if TYPE_CHECKING:
    from quantkit.training.config import TrainingConfig


@dataclass(frozen=True)
class Learning:
    """How a network learns."""

    epochs: int = option(
        "--epochs", type=click.IntRange(min=1), default=10, show_default=True, metavar="N", help="Passes over --train."
    )
    batch_size: int = option(
        "--batch-size",
        type=click.IntRange(min=1),
        default=32,
        show_default=True,
        metavar="N",
        help="Samples of a step.",
    )
    optimizer: str = option(
        "--optimizer",
        type=click.Choice(["sgd", "adam", "adamax"]),
        default="sgd",
        show_default=True,
        help="sgd is with momentum.",
    )
    learning_rate: Optional[float] = option(
        "--learning-rate",
        type=click.FloatRange(min=0, min_open=True),
        metavar="RATE",
        help="For a batch of 256; it is scaled to the batch size, for sgd in proportion, else by the root.  [default: "
        "0.1 for sgd, 0.001 for adam, 0.002 for adamax]",
    )
    momentum: float = option(
        "--momentum", type=click.FloatRange(0, 1, max_open=True), default=0.9, show_default=True, help="Of sgd."
    )
    weight_decay: float = option(
        "--weight-decay",
        type=click.FloatRange(min=0),
        default=1e-4,
        show_default=True,
        help="Of weights; biases and normalizations have none.",
    )
    schedule: str = option(
        "--schedule",
        type=click.Choice(["cosine", "step", "constant"]),
        default="cosine",
        show_default=True,
        help="How the rate falls; step divides it by 10 after 50 % and 75 % of the epochs.",
    )
    warmup_epochs: float = option(
        "--warmup-epochs",
        type=click.FloatRange(min=0),
        default=1.0,
        show_default=True,
        metavar="N",
        help="The rate rises from 0 over so many epochs.",
    )
    label_smoothing: float = option(
        "--label-smoothing",
        type=click.FloatRange(0, 1, max_open=True),
        default=0.0,
        show_default=True,
        metavar="SHARE",
        help="Spread this share of each target over all classes.",
    )
    freeze: tuple[str, ...] = option(
        "--freeze",
        multiple=True,
        metavar="GLOB",
        help="Keep as they are: the operators and parameters of these names; body: all but the last layer. Repeatable.",
    )
    patience: Optional[int] = option(
        "--patience",
        type=click.IntRange(min=1),
        metavar="N",
        help="End after so many epochs without a better result on --val.",
    )
    seed: int = option(
        "--seed",
        type=click.IntRange(0, 2**31 - 1),
        default=0,
        show_default=True,
        help="The same gives the same weights.",
    )


@dataclass(frozen=True)
class Varying:
    """How training images are varied."""

    smallest_crop: float = option(
        "--smallest-crop",
        type=click.FloatRange(0.01, 1),
        default=0.35,
        show_default=True,
        metavar="SHARE",
        help="Cut out a part with at least this share of the image's area; 1: images as for inference.",
    )
    flip: bool = option(
        "--flip/--no-flip", default=True, show_default=True, help="Mirror every other image; not for digits or letters."
    )
    colour: float = option(
        "--colour",
        type=click.FloatRange(0, 1),
        default=0.2,
        show_default=True,
        metavar="SHARE",
        help="Change brightness, contrast and saturation by up to this.",
    )
    mixup: float = option(
        "--mixup",
        type=click.FloatRange(min=0),
        default=0.0,
        show_default=True,
        metavar="ALPHA",
        help="Mix samples in pairs, in shares of the Beta distribution with this parameter, such as 0.2; 0: never.",
    )


def config_of(learning: Learning, varying: Varying) -> TrainingConfig:
    """The configuration that options make.

    Raises:
        UserError: a value is impossible.
    """
    from quantkit.training.augmentation import Augmentation
    from quantkit.training.config import TrainingConfig

    augmentation = Augmentation(varying.smallest_crop, varying.flip, varying.colour)
    return TrainingConfig(**asdict(learning), mixup=varying.mixup, augmentation=augmentation)
