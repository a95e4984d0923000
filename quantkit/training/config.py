"""How a network is trained, as one value."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from typing import Literal, Optional, get_args

from quantkit.errors import UserError
from quantkit.kinds import number, of_kind, whole_number
from quantkit.training.augmentation import Augmentation

OptimizerName = Literal["sgd", "adam", "adamax"]
ScheduleName = Literal["cosine", "step", "constant"]

REFERENCE_BATCH = 256
"""The batch size for which learning rates are given."""

# For a batch of REFERENCE_BATCH images; those of MXNet's own defaults for Adam and AdaMax.
_USUAL_RATES: dict[OptimizerName, float] = {"sgd": 0.1, "adam": 1e-3, "adamax": 2e-3}

_MOST_EPOCHS = 10**6

_LARGEST_SEED = 2**31 - 1


@dataclass(frozen=True)
class TrainingConfig:
    """How a network is trained.

    Attributes:
        epochs: passes over the training samples.
        batch_size: samples of a step, those of all instances together.
        optimizer: ``sgd`` with momentum, ``adam`` (Kingma and Ba 2015) or ``adamax`` (the same paper, section 7.1).
        learning_rate: its peak for a batch of 256; see ``peak_rate``. None: 0.1, 0.001 and 0.002 for the optimizers.
        momentum: of ``sgd``.
        weight_decay: added to the gradient for each weight, in units of it; biases and normalizations have none.
        schedule: ``cosine`` falls to 0 along half a cosine (Loshchilov and Hutter 2017), ``step`` divides by 10 after
            50 % and 75 % of the epochs, ``constant`` stays.
        warmup_epochs: the rate rises linearly from 0 over as many epochs (Goyal et al. 2017), may be a fraction;
            over half of the training at most.
        label_smoothing: the share of each target that is spread evenly over all classes (Szegedy et al. 2016).
        mixup: the parameter of the Beta distribution from which shares of two mixed samples are drawn (Zhang et al.
            2018); 0: samples are not mixed.
        freeze: globs over the names of operators and parameters that stay as they are; ``body`` is everything but the
            last layer. A batch normalization whose scale and shift are frozen uses its moving statistics.
        patience: training ends after as many epochs without a better result on the validation samples; None: never.
        seed: of the order, of the augmentation and of a new last layer; the same seed on the same machine with the same
            number of threads gives the same weights.
        augmentation: how images are varied.

    Raises:
        UserError: a value is impossible.
    """

    epochs: int = 10
    batch_size: int = 32
    optimizer: OptimizerName = "sgd"
    learning_rate: Optional[float] = None
    momentum: float = 0.9
    weight_decay: float = 1e-4
    schedule: ScheduleName = "cosine"
    warmup_epochs: float = 1.0
    label_smoothing: float = 0.0
    mixup: float = 0.0
    freeze: tuple[str, ...] = ()
    patience: Optional[int] = None
    seed: int = 0
    augmentation: Augmentation = field(default_factory=Augmentation)

    def __post_init__(self) -> None:
        """Refuse what no training can be run with."""
        of_kind("augmentation", self.augmentation, Augmentation, "such as Augmentation(flip=False)")
        for name, options in (("optimizer", OptimizerName), ("schedule", ScheduleName)):
            if (value := getattr(self, name)) not in get_args(options):
                raise UserError(f"{name} is {value!r}; choose one of {', '.join(get_args(options))}")
        for name, usual in (("epochs", 10), ("batch_size", 32)):
            self._set(name, whole_number(name, getattr(self, name), 1, usual))
        self._set("seed", whole_number("seed", self.seed, 0, 0))
        if self.seed > _LARGEST_SEED:
            raise UserError(f"seed is {self.seed}; give at most {_LARGEST_SEED}")
        if self.patience is not None:
            self._set("patience", whole_number("patience", self.patience, 1, 5))
        if self.learning_rate is not None:
            self._set("learning_rate", _within("learning_rate", self.learning_rate, 0, math.inf, above=True))
        self._set("momentum", _within("momentum", self.momentum, 0, 1))
        self._set("label_smoothing", _within("label_smoothing", self.label_smoothing, 0, 1))
        self._set("warmup_epochs", _within("warmup_epochs", self.warmup_epochs, 0, math.inf))
        self._set("weight_decay", _within("weight_decay", self.weight_decay, 0, math.inf))
        self._set("mixup", _within("mixup", self.mixup, 0, math.inf))
        if self.mixup and self.batch_size < 2:
            raise UserError("mixup mixes samples in pairs, and batch_size is 1; give a larger batch, or no mixup")
        if self.epochs > _MOST_EPOCHS:
            raise UserError(f"epochs is {self.epochs}; give at most {_MOST_EPOCHS}")
        if isinstance(self.freeze, str):
            raise UserError(f"freeze is {self.freeze!r}; give a tuple of globs, such as ({self.freeze!r},)")
        self._set("freeze", tuple(self.freeze))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def peak_rate(self) -> float:
        """The highest learning rate, for the batch size.

        It grows with the batch size: in proportion for ``sgd`` (Goyal et al. 2017, "Accurate, Large Minibatch SGD",
        section 2.1), with the square root for ``adam`` and ``adamax`` (Malladi et al. 2022, "On the SDEs and Scaling
        Rules for Adaptive Gradient Algorithms").
        """
        rate = _USUAL_RATES[self.optimizer] if self.learning_rate is None else self.learning_rate
        times = self.batch_size / REFERENCE_BATCH
        return rate * (times if self.optimizer == "sgd" else math.sqrt(times))

    def check_shared(self, instances: int) -> None:
        """Make sure that instances can share a batch.

        Raises:
            UserError: they cannot.
        """
        if self.batch_size % instances:
            raise UserError(
                f"a batch of {self.batch_size} cannot be shared by {instances} instances; give a multiple of them "
                "(--batch-size, batch_size)"
            )
        if self.mixup and instances > 1 and self.batch_size // instances % 2:
            raise UserError(
                f"mixup mixes samples in pairs, and a batch of {self.batch_size} gives each of {instances} instances "
                "an odd number; give another --batch-size (batch_size), or no --mixup"
            )

    @property
    def sha256(self) -> str:
        """The hash of all values."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def _within(name: str, value: object, least: float, end: float, above: bool = False) -> float:
    """A number from ``least`` (with ``above``: above it) up to ``end``, which is not among them."""
    bound = f"above {least:g}" if above else f"from {least:g}"
    remedy = f"give a number {bound}" if math.isinf(end) else f"give a number {bound} and below {end:g}"
    found = number(name, value, remedy)
    if not least <= found < end or (above and found == least):
        raise UserError(f"{name} is {value!r}; {remedy}")
    return found
