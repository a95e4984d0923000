"""What the scripts that train recurrent networks share: the layers, the training, what the outputs say."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

Batch = tuple[NDArray[Any], NDArray[np.int64]]
"""Inputs and the classes to predict: one for a sequence, (batch,), or one for every step, (batch, steps)."""


@dataclass(frozen=True)
class Shape:
    """LSTM layers, layout NTC, from zero states, with a dense layer on top.

    With a ``vocabulary`` the inputs are ids, (batch, steps), which an embedding turns into ``features`` numbers, and
    every step has an output; without one the inputs are (batch, steps, features), and only the last step has.
    ``tied``: the dense layer has the embedding's weights; ``features`` and ``hidden`` must then be equal.
    """

    features: int
    hidden: int
    layers: int
    classes: int
    vocabulary: Optional[int] = None
    tied: bool = False


def build(mxnet: Any, shape: Shape, prefix: str, dropout: float = 0.0) -> Any:
    """The network as a Gluon block, hybridized, whose outputs are logits.

    Args:
        mxnet: the package.
        shape: its layers.
        prefix: what the names of its parameters begin with, so that they are the same in every process.
        dropout: the share of numbers dropped between layers in training.
    """
    gluon = mxnet.gluon
    network = gluon.nn.HybridSequential(prefix=prefix)
    with network.name_scope():
        shared = None
        if shape.vocabulary is not None:
            embedding = gluon.nn.Embedding(shape.vocabulary, shape.features)
            network.add(embedding)
            shared = embedding.params if shape.tied else None
        network.add(
            gluon.rnn.LSTM(shape.hidden, shape.layers, layout="NTC", input_size=shape.features, dropout=dropout)
        )
        if dropout:
            network.add(gluon.nn.Dropout(dropout))
        if shape.vocabulary is None:
            network.add(
                gluon.nn.HybridLambda(lambda operators, steps: operators.slice_axis(steps, axis=1, begin=-1, end=None))
            )
        flatten = shape.vocabulary is None
        network.add(gluon.nn.Dense(shape.classes, flatten=flatten, in_units=shape.hidden, params=shared))
    network.hybridize(static_alloc=True)
    return network


def without_dropout(mxnet: Any, network: Any, shape: Shape, prefix: str) -> Any:
    """The trained ``network``, which ``build`` made, as it is deployed: the same weights, and nothing of training."""
    deployed = build(mxnet, shape, prefix)
    trained = network.collect_params()
    for name, parameter in deployed.collect_params().items():
        parameter.initialize()
        parameter.set_data(trained[name].data())
    return deployed


def train(
    mxnet: Any, network: Any, batches: Iterable[Batch], steps: int, learning_rate: float, largest_gradient: float = 1.0
) -> None:
    """Train with Adam, the learning rate rising over 5 % of the steps and then falling along a cosine.

    Args:
        mxnet: the package.
        network: a Gluon block with initialized parameters.
        batches: ``steps`` batches, all of one size.
        steps: their number.
        learning_rate: the highest.
        largest_gradient: the norm of all gradients together, by which larger ones are scaled down.
    """
    loss_of = mxnet.gluon.loss.SoftmaxCrossEntropyLoss()
    parameters = [each for each in network.collect_params().values() if each.grad_req != "null"]
    trainer = mxnet.gluon.Trainer(network.collect_params(), "adam", {"learning_rate": 0.0}, kvstore=None)
    running = 0.0
    for step, (inputs, targets) in enumerate(batches):
        rising, falling = min(1.0, (step + 1) / (0.05 * steps)), 0.5 * (1 + math.cos(math.pi * step / steps))
        trainer.set_learning_rate(learning_rate * rising * falling)
        with mxnet.autograd.record():
            loss = loss_of(network(mxnet.nd.array(inputs)), mxnet.nd.array(targets)).mean()
        loss.backward()
        mxnet.gluon.utils.clip_global_norm([each.grad() for each in parameters], largest_gradient)
        trainer.step(1)
        running += (loss.asscalar() - running) / min(step + 1, 100)
        if (step + 1) % 100 == 0 or step + 1 == steps:
            print(f"  step {step + 1:5d}/{steps}  loss {running:.4f}", flush=True)


def logits(mxnet: Any, network: Any, inputs: NDArray[Any]) -> NDArray[np.float32]:
    """What the network says of the inputs, 64 at a time: float32 of shape (inputs, ..., classes)."""
    parts = np.array_split(inputs, max(1, len(inputs) // 64))
    return np.concatenate([network(mxnet.nd.array(part)).asnumpy() for part in parts])


def cross_entropy(logits: NDArray[np.float32], targets: NDArray[np.int64]) -> float:
    """The mean over all targets of minus the natural logarithm of their probability.

    Args:
        logits: float32 of shape (..., classes).
        targets: the classes, int64 of the shape before.
    """
    scores = logits.astype(np.float64)
    highest = scores.max(-1)
    all_classes = highest + np.log(np.exp(scores - highest[..., None]).sum(-1))
    return float((all_classes - np.take_along_axis(scores, targets[..., None], -1)[..., 0]).mean())
