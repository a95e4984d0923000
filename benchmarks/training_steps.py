"""Steps of a training on random images, and how long they and their parts take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter

import numpy as np

import quantkit
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.training.communication import Communication
from quantkit.training.head import classes_of, last_layer
from quantkit.training.network import TrainedNetwork
from quantkit.training.trainable import trainable


@dataclass(frozen=True)
class Subject:
    """A network, the side of its images, and the batch of an instance."""

    network: str
    side: int
    batch: int


def in_training(model: quantkit.Model, subject: Subject, communication: Communication) -> TrainedNetwork:
    """The network, ready to be trained."""
    network = trainable(model.graph, last_layer(model.graph, model.name).name, ())
    batch = subject.batch * communication.instances
    config = quantkit.TrainingConfig(epochs=1, batch_size=batch, learning_rate=1e-6)
    return TrainedNetwork(network, config, 100, communication)


def stepping(model: quantkit.Model, subject: Subject, trained: TrainedNetwork) -> Callable[[], None]:
    """Trains on one random batch."""
    data, targets = random_batch(model, subject)

    def once() -> None:
        trained.step(data, targets)

    return once


def random_batch(model: quantkit.Model, subject: Subject) -> tuple[np.ndarray, np.ndarray]:
    """Random images and targets."""
    drawn = np.random.default_rng(0)
    data = drawn.normal(size=(subject.batch, 3, subject.side, subject.side)).astype(np.float32)
    return data, np.eye(classes_of(model), dtype=np.float32)[np.arange(subject.batch) % classes_of(model)]


class Ticks:
    """Moments at which the engine had done all that it was told."""

    def __init__(self) -> None:
        """Begin now."""
        self._ticks = [perf_counter()]

    def tick(self) -> None:
        """Wait for the engine, and note the time."""
        load_mxnet().nd.waitall()
        self._ticks.append(perf_counter())

    def seconds(self) -> list[float]:
        """The seconds between ticks."""
        return [after - before for before, after in pairwise(self._ticks)]


def timed(call: Callable[[], None]) -> float:
    """The seconds of a call, until the engine has done all that it was told."""
    ticks = Ticks()
    call()
    ticks.tick()
    return ticks.seconds()[0]


def mean_parts(found: Sequence[Sequence[float]]) -> list[float]:
    """What each part takes on average."""
    return [float(value) for value in np.mean(found, axis=0)]
