"""Accuracy on validation samples, between epochs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Optional

import numpy as np

from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.data.dataset import CACHE_BYTES, CalibrationDataset
from quantkit.data.samples import Samples
from quantkit.errors import DataError
from quantkit.evaluation.accuracy import hits
from quantkit.ir.graph import Graph
from quantkit.models.dataset import dataset
from quantkit.models.model import Model
from quantkit.training.feed import bytes_kept
from quantkit.training.teacher import Teacher


@dataclass(frozen=True)
class Validated:
    """What a network says of the validation samples.

    Attributes:
        samples: their number.
        correct: how many of them have their largest score in their class.
        loss: the mean cross-entropy with the labels, or with a teacher's classes, in nats.
    """

    samples: int
    correct: int
    loss: float

    @property
    def top1(self) -> float:
        """The share of correct ones, from 0 to 1."""
        return self.correct / self.samples

    def better_than(self, other: Validated) -> bool:
        """Whether more are correct, or as many at a smaller loss."""
        return (self.correct, -self.loss) > (other.correct, -other.loss)


def share_of(model: Model, samples: Samples, rank: int, instances: int, local_size: int) -> CalibrationDataset:
    """The validation samples of an instance, cached as far as its part of the free memory has room for them.

    They are every so many-th, beginning at its number: all instances together have each once.

    Args:
        model: the network that reads them.
        samples: those of all instances.
        rank: the instance's number.
        instances: how many there are.
        local_size: how many of them this machine has.

    Raises:
        DataError: there are fewer samples than instances.
    """
    positions = range(len(samples)) if samples.positions is None else samples.positions
    if len(positions) < instances:
        raise DataError(f"{samples.name} has {len(positions)} samples for {instances} instances; give more")
    part = replace(samples, positions=positions[rank::instances])
    return dataset(model, part, cache_bytes=min(CACHE_BYTES, bytes_kept(local_size)))


def validated(
    graph: Graph,
    params: Mapping[str, np.ndarray],
    data: CalibrationDataset,
    batch_size: int,
    classes: int,
    teacher: Optional[Teacher] = None,
    heartbeat: Callable[[], object] = lambda: None,
) -> Validated:
    """Run a network over validation samples.

    Args:
        graph: its output are class scores before any softmax.
        params: its parameters now.
        data: the samples, with labels unless there is a teacher.
        batch_size: how many are run at once.
        classes: the number of classes.
        teacher: the network whose classes are taken for the labels; None: those of the samples are.
        heartbeat: is called for each batch.

    Raises:
        DataError: a sample cannot be used, or has no label or one beyond the classes.
        EngineError: the engine fails.
    """
    session = MxnetSession(replace(graph, params=dict(params)))
    samples = correct = 0
    loss = 0.0
    for batch in data.batches(batch_size, None if teacher else classes):
        heartbeat()
        labels = teacher.classes(batch.data) if teacher else batch.labels
        if labels is None or labels.ndim != 1:
            raise DataError(f"{data.name} has no class for each sample; give labelled samples (--val)")
        scores = session.run({graph.inputs[0]: batch.data})[0].reshape(len(batch.data), -1).astype(np.float64)
        samples += len(scores)
        correct += int(hits(scores, labels).sum())
        scores -= scores.max(axis=1, keepdims=True)
        loss += float((np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(scores)), labels]).sum())
    return Validated(samples, correct, loss / samples)
