"""What a loop is made from, whatever is trained."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from quantkit.data.dataset import CalibrationDataset
from quantkit.data.samples import Samples
from quantkit.formats.mxnet import nnvm
from quantkit.ir.graph import Graph
from quantkit.models.model import Model
from quantkit.training.communication import Alone, Communication
from quantkit.training.config import TrainingConfig
from quantkit.training.feed import Feed, digest_of
from quantkit.training.head import classes_of
from quantkit.training.loop import Loop
from quantkit.training.teacher import Teacher
from quantkit.training.trainable import Trainable

# Samples by which two sets are told apart.
_COMPARED = 32


@dataclass(frozen=True, eq=False)
class LoopInputs:
    """What an instance has for its part of a training, besides the network.

    Attributes:
        samples: those that are learned from.
        validation: those that each epoch is judged on; None: it is not.
        config: how to train.
        workers: threads that prepare batches; 0: the caller's own.
        checkpoint: where the state goes after each epoch; None: nowhere.
        communication: the instances.
        identity: the hash of what decides the training; None: it is computed.
    """

    samples: Samples
    validation: Optional[CalibrationDataset]
    config: TrainingConfig
    workers: int
    checkpoint: Optional[Path]
    communication: Communication = field(default_factory=Alone)
    identity: Optional[str] = None

    def loop(self, model: Model, network: Trainable, teacher: Optional[Teacher] = None, distill: bool = False) -> Loop:
        """The training of a network.

        Args:
            model: says how samples are prepared.
            network: what is trained.
            teacher: the network whose classes validation compares with; None: it compares with labels.
            distill: learn the teacher's scores; else the labels.

        Raises:
            DataError: the samples are fewer than a batch.
            UserError: the configuration does not fit the samples or the instances.
        """
        place = self.communication.rank, self.communication.instances
        feed = Feed(self.samples, model, self.config, classes_of(model), self.workers, *place, labelled=not distill)
        learned = teacher.graph if teacher is not None and distill else None
        identity = self.identity or identity_of(network, feed, self.validation, learned)
        return Loop(network, feed, self.validation, self.communication, self.checkpoint, identity, teacher, distill)


def identity_of(
    network: Trainable, feed: Feed, validation: Optional[CalibrationDataset], learned: Optional[Graph]
) -> str:
    """The hash of what decides a training: the network, the samples, and the configuration.

    Args:
        network: what is trained.
        feed: the samples, of which some are compared by their content.
        validation: those that each epoch is judged on.
        learned: the network whose scores are learned; None: labels are.
    """
    judged = ""
    if validation is not None:
        judged = f"{validation.name} {validation.size} {_digest_of_validation(validation.samples)}"
    parts = (
        nnvm.sha256_of(network.graph),
        *sorted(network.learned),
        feed.config.sha256,
        feed.samples.name,
        str(len(feed.samples)),
        str(feed.classes),
        judged,
        repr((feed.model.preparation, feed.model.input_shape)),
        nnvm.sha256_of(learned) if learned else "",
        feed.digest(_COMPARED).hex(),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _digest_of_validation(samples: Samples) -> str:
    return digest_of(samples, _COMPARED, spread=samples.independent and bool(samples.size)).hex()
