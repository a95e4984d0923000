"""What the scripts that train on scenes of digits share: the scenes in batches, the layers, the steps, the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from checkpoint import save

from quantkit.data.boxes import Boxes
from quantkit.data.preprocess import Preprocess
from quantkit.data.scenes import SIDE, scenes

PREPROCESS = Preprocess(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), fit="stretch")
INPUT_SHAPE = (3, SIDE, SIDE)

_SCENES, _BATCH = 4_000, 32
_BRIGHTNESS, _NOISE = (0.8, 1.1), (0.0, 8.0)


@dataclass(frozen=True, eq=False)
class Batch:
    """Scenes: the network's input, their objects, and the class of each pixel, int64 of shape (scenes, 96, 96)."""

    data: np.ndarray
    boxes: list[Boxes]
    classes: np.ndarray


def batches(epochs: int, seed: int) -> Iterator[Batch]:
    """``epochs`` passes over ``scenes:train``, each in another order, with other brightness and noise."""
    random = np.random.default_rng(seed)
    scene = scenes("train")
    composed = [scene(position) for position in range(_SCENES)]
    images = np.stack([each.image for each in composed])
    classes = np.stack([each.classes.astype(np.int8) for each in composed])
    for _ in range(epochs):
        order = random.permutation(_SCENES)
        for first in range(0, _SCENES, _BATCH):
            chosen = order[first : first + _BATCH]
            boxes = [composed[index].boxes for index in chosen]
            yield Batch(_varied(images[chosen], random), boxes, classes[chosen].astype(np.int64))


def _varied(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Images as the network reads them, brighter or darker, with some noise."""
    brightness, noise = (random.uniform(*bounds, (len(images), 1, 1, 1)) for bounds in (_BRIGHTNESS, _NOISE))
    pixels = images.transpose(0, 3, 1, 2) * brightness.astype(np.float32)
    pixels += noise.astype(np.float32) * random.standard_normal(pixels.shape, np.float32)
    mean, std = (np.array(each, np.float32)[:, None, None] for each in (PREPROCESS.mean, PREPROCESS.std))
    varied: np.ndarray = (np.clip(pixels, 0, 255) / np.float32(PREPROCESS.scale) - mean) / std
    return varied


def convolutions(nn: Any, layers: Sequence[tuple[int, int]]) -> Any:
    """3x3 convolutions with batch normalization and ReLU; each layer has its channels and its stride."""
    stack = nn.HybridSequential()
    for channels, stride in layers:
        stack.add(nn.Conv2D(channels, 3, stride, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
    return stack


def train(mxnet: Any, network: Any, epochs: int, seed: int, loss_of: Callable[[Batch], Any]) -> None:
    """Train with Adam, the learning rate rising over 5 % of the steps and then falling along a cosine.

    Args:
        mxnet: the package.
        network: the block; ``loss_of`` runs it.
        epochs: passes over the scenes.
        seed: of their order and their noise.
        loss_of: the loss of a batch, an array of one number.
    """
    total = epochs * (_SCENES // _BATCH)
    trainer = mxnet.gluon.Trainer(network.collect_params(), "adam", {"learning_rate": 0.0, "wd": 1e-4}, kvstore=None)
    running = 0.0
    for step, batch in enumerate(batches(epochs, seed)):
        done = (step + 1) / total
        trainer.set_learning_rate(2e-3 * min(done / 0.05, 1.0) * 0.5 * (1 + math.cos(math.pi * done)))
        with mxnet.autograd.record():
            loss = loss_of(batch)
        loss.backward()
        trainer.step(1)
        running += float(loss.asscalar())
        if (step + 1) % (total // epochs) == 0:
            epoch = (step + 1) * epochs // total
            print(f"  epoch {epoch:3d}/{epochs}  loss {running * epochs / total:.4f}", flush=True)
            running = 0.0


def save_trained(mxnet: Any, network: Any, out: Path, name: str) -> None:
    """Write a trained network as a checkpoint into the folder ``out``, and print the hash for its card."""
    # Anew, since a network may have other outputs in inference.
    network.hybridize()
    network(mxnet.nd.zeros((1, *INPUT_SHAPE)))
    print(f"  sha256 for the model card: {save(network, out, name)}", flush=True)
