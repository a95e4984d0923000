"""Train the networks that ship with quantkit: small ResNets on scikit-learn's handwritten digits.

    python models/train_digits.py --out models/

The data lie inside scikit-learn (the UCI optical digits, 1,797 images of 8x8, enlarged to 32x32 RGB), so
nothing is downloaded: every fifth image is kept for testing, the rest is trained on. Each network takes
some five minutes on one core. The seed fixes the initial weights, the order and the
augmentation; the last digits of the result depend on the engine and on the number of its threads.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np
from checkpoint import save
from PIL import Image

from quantkit.backends.mxnet.compat import load_gluoncv, load_mxnet
from quantkit.data.builtin import digits
from quantkit.data.preprocess import Preprocess, apply

NETWORKS = ("cifar_resnet20_v1", "cifar_resnet20_v2")
PREPROCESS = Preprocess(resize=32, crop=32, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))


def stacked(split: str) -> tuple[np.ndarray, np.ndarray]:
    """The images (uint8, N x 32 x 32 x 3) and labels (int64, N) of the ``train`` or the ``test`` split."""
    samples = list(digits(split))
    return np.stack([sample.image for sample in samples]), np.array([sample.label for sample in samples], np.int64)


def augmented(image: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The image turned by up to 12 degrees, scaled by up to 10 %, shifted by up to 3 pixels, and with some noise."""
    angle, size = math.radians(random.uniform(-12, 12)), random.uniform(0.9, 1.1)
    right, down = random.uniform(-3, 3, size=2)
    cos, sin, channel_shift = math.cos(angle) / size, math.sin(angle) / size, 15.5
    # PIL asks for the map from the new image's coordinates to the old one's.
    affine = (
        cos, sin, channel_shift - cos * (channel_shift + right) - sin * (channel_shift + down),
        -sin, cos, channel_shift + sin * (channel_shift + right) - cos * (channel_shift + down),
    )  # fmt: skip
    turned = Image.fromarray(image).transform((32, 32), Image.Transform.AFFINE, affine, Image.Resampling.BILINEAR)
    noise = random.normal(0, random.uniform(0, 12), (32, 32, 3))
    noisy = np.asarray(turned, np.float32) * random.uniform(0.8, 1.0) + noise
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def inputs(images: Iterable[np.ndarray]) -> np.ndarray:
    """The network's input (float32, N x 3 x 32 x 32) of RGB images (uint8, 32 x 32 x 3)."""
    return np.stack([apply(PREPROCESS, image) for image in images])


def accuracy(mxnet: Any, network: Any, images: np.ndarray, labels: np.ndarray) -> float:
    """The share of images whose highest output is the label's."""
    parts = np.array_split(inputs(images), 8)
    predicted = [network(mxnet.nd.array(part)).asnumpy().argmax(1) for part in parts]
    return float((np.concatenate(predicted) == labels).mean())


def train(mxnet: Any, network: Any, epochs: int, random: np.random.Generator, batch_size: int = 64) -> None:
    """Train with Nesterov momentum, the learning rate rising for one epoch and then falling along a cosine."""
    images, labels = stacked("train")
    steps = len(images) // batch_size
    loss_of = mxnet.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mxnet.gluon.Trainer(
        network.collect_params(), "nag", {"momentum": 0.9, "wd": 5e-4, "learning_rate": 0.0}, kvstore=None
    )
    for epoch in range(epochs):
        total, order = 0.0, random.permutation(len(images))
        for step in range(steps):
            done = epoch + step / steps
            trainer.set_learning_rate(0.1 * min(done, 1.0) * 0.5 * (1 + math.cos(math.pi * done / epochs)))
            chosen = order[step * batch_size : (step + 1) * batch_size]
            batch = inputs(augmented(images[index], random) for index in chosen)
            with mxnet.autograd.record():
                output = network(mxnet.nd.array(batch))
                loss = loss_of(output, mxnet.nd.array(labels[chosen]))
            loss.backward()
            trainer.step(batch_size)
            total += float(loss.mean().asscalar())
        print(f"  epoch {epoch + 1:3d}/{epochs}  loss {total / steps:.4f}", flush=True)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Train, test and save the networks asked for."""
    parser = argparse.ArgumentParser(description="Train small ResNets on scikit-learn's handwritten digits.")
    parser.add_argument("--out", type=Path, default=Path("models"), help="folder for the checkpoints (default: models)")
    parser.add_argument("--epochs", type=int, default=60, help="passes over the 1,437 training images (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument("--network", choices=NETWORKS, action="append", help="default: all")
    options = parser.parse_args(arguments)
    mxnet, gluoncv = load_mxnet(), load_gluoncv()
    images, labels = stacked("test")
    for architecture in options.network or NETWORKS:
        name = architecture.replace("cifar", "digits")
        print(name, flush=True)
        mxnet.random.seed(options.seed)
        # A fixed prefix keeps the parameters' names the same in every process.
        network = gluoncv.model_zoo.get_model(architecture, classes=10, prefix="digits_")
        network.initialize(mxnet.init.MSRAPrelu(slope=0.0))
        network.hybridize(static_alloc=True, static_shape=True)
        train(mxnet, network, options.epochs, np.random.default_rng(options.seed))
        top1 = 100 * accuracy(mxnet, network, images, labels)
        print(f"  accuracy on {len(labels)} test images: {top1:.2f} %")
        print(f"  sha256 for the model card: {save(network, options.out, name)}", flush=True)


if __name__ == "__main__":
    main()
