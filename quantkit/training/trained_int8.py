"""What quantization-aware training has made of an INT8 network, and the record of it that goes into the bundle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Optional

from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.data.left_out import LeftOut
from quantkit.training.config import TrainingConfig
from quantkit.training.epoch import Epoch
from quantkit.training.feed_workers import FeedWorkers
from quantkit.training.validation import Validated
from quantkit.version import __version__


@dataclass(frozen=True, eq=False)
class TrainedInt8:
    """An INT8 network after quantization-aware training.

    Attributes:
        network: the best of all epochs on the validation samples, or the network as it was if none is better. Its
            ``training``, which goes into the bundle, is the record of the training.
        config: how it was trained.
        distill: whether it learned the scores of FP32; else the labels.
        epochs: what each epoch brought; ``validated`` counts agreement with FP32.
        best: the number of the best one; 0: the network as it was.
        before: the agreement with FP32 before; None without validation samples.
        data: the names of the training and, if any, of the validation samples.
        left_out: the training samples that could not be used.
        validation_left_out: the validation samples that could not be used.
        resumed: how many epochs an earlier run had done.
        workers: the threads that prepared samples; None where instances had a number of their own.
    """

    network: QuantizedModel
    config: TrainingConfig
    distill: bool
    epochs: Sequence[Epoch]
    best: int
    before: Optional[Validated]
    data: tuple[str, Optional[str]]
    left_out: tuple[LeftOut, ...] = ()
    validation_left_out: tuple[LeftOut, ...] = ()
    resumed: int = 0
    workers: Optional[FeedWorkers] = None


def with_record(trained: TrainedInt8) -> TrainedInt8:
    """The same, with a network that says how it was trained, and how before, if it was.

    Times are left out, so that equal trainings give equal bundles, and of samples that were left out all but their
    number.
    """
    network, (train, validation) = trained.network, trained.data
    record: dict[str, Any] = {
        "quantkit": __version__,
        "train": train,
        "validation": validation,
        "config": asdict(trained.config),
        "distill": trained.distill,
        "before": _judged(trained.before),
        "epochs": [
            {
                "number": epoch.number,
                "loss": epoch.loss,
                "rate": epoch.rate,
                "samples": epoch.samples,
                "validated": _judged(epoch.validated),
            }
            for epoch in trained.epochs
        ],
        "best_epoch": trained.best,
        "left_out": len(trained.left_out),
        "validation_left_out": len(trained.validation_left_out),
    }
    if network.training is not None:
        record["earlier"] = network.training
    return replace(trained, network=replace(network, training=record))


def _judged(found: Optional[Validated]) -> Optional[dict[str, Any]]:
    """What a network says of the validation samples as JSON values, which have no infinity."""
    if found is None:
        return None
    return {**asdict(found), "loss": found.loss if math.isfinite(found.loss) else None}
