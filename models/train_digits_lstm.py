"""Train the sequence classifier that ships with quantkit: an LSTM that reads scikit-learn's handwritten digits by rows.

    python models/train_digits_lstm.py --out models/
    python models/train_digits_lstm.py --data-out build/

The second command trains nothing: it writes digits_lstm-train.npz and digits_lstm-test.npz, the images as float32
sequences of 8 rows of 8 pixels from 0 to 1 (x) and their labels (y). The images and their split are those of
``digits:train`` and ``digits:test``: every fifth is held out. Nothing is downloaded. Training takes about a minute on
one core; the seed fixes weights, order, noise and dropout, and the last digits of the result depend on the engine and
on the number of its threads.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np
from checkpoint import save
from numpy.typing import NDArray
from recurrent_training import Batch, Shape, build, logits, train, without_dropout
from sklearn.datasets import load_digits

from quantkit.backends.mxnet.compat import load_mxnet

NAME = "digits_lstm"
SHAPE = Shape(features=8, hidden=64, layers=2, classes=10)

_PREFIX = f"{NAME}_"
_TEST_EVERY = 5
_BATCH = 32
_NOISE = 0.1


def rows(split: str) -> Batch:
    """The images of the split ``train`` (1,437) or ``test`` (360).

    Returns:
        their rows from top to bottom, float32 of shape (images, 8, 8), and their labels, int64 of shape (images,).
    """
    digits = load_digits()
    chosen = (np.arange(len(digits.target)) % _TEST_EVERY == 0) == (split == "test")
    return (digits.images[chosen] / 16).astype(np.float32), digits.target[chosen].astype(np.int64)


def batches(data: Batch, epochs: int, seed: int) -> Iterator[Batch]:
    """``epochs`` passes, each in another order, the images shifted by up to a pixel each way and with some noise."""
    (images, labels), random = data, np.random.default_rng(seed)
    for _ in range(epochs):
        order = random.permutation(len(images))
        for first in range(0, len(images) // _BATCH * _BATCH, _BATCH):
            chosen = order[first : first + _BATCH]
            shifted = np.stack([_shifted(image, random) for image in images[chosen]])
            yield (shifted + random.normal(0, _NOISE, shifted.shape)).astype(np.float32), labels[chosen]


def _shifted(image: NDArray[Any], random: np.random.Generator) -> NDArray[Any]:
    down, right = random.integers(-1, 2, size=2)
    padded = np.pad(image, 1)
    return padded[1 - down : 9 - down, 1 - right : 9 - right]


def write_data(out: Path) -> None:
    """Write the sequences to train and to test on."""
    out.mkdir(parents=True, exist_ok=True)
    for split in ("train", "test"):
        images, labels = rows(split)
        path = out / f"{NAME}-{split}.npz"
        np.savez_compressed(path, x=images, y=labels)
        print(f"{path}: {len(images)} sequences")


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Train, test and save the network, or write its data."""
    parser = argparse.ArgumentParser(description="Train an LSTM on the rows of scikit-learn's handwritten digits.")
    parser.add_argument("--out", type=Path, default=Path("models"), help="folder for the checkpoint (default: models)")
    parser.add_argument("--data-out", type=Path, help="write the data into this folder, and train nothing")
    parser.add_argument("--epochs", type=int, default=100, help="passes over the training images (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    options = parser.parse_args(arguments)
    if options.data_out is not None:
        write_data(options.data_out)
        return
    mxnet = load_mxnet()
    mxnet.random.seed(options.seed)
    network = build(mxnet, SHAPE, _PREFIX, dropout=0.2)
    network.initialize(mxnet.init.Xavier())
    data = rows("train")
    steps = options.epochs * (len(data[0]) // _BATCH)
    train(mxnet, network, batches(data, options.epochs, options.seed), steps, learning_rate=4e-3)
    deployed = without_dropout(mxnet, network, SHAPE, _PREFIX)
    images, labels = rows("test")
    predicted = logits(mxnet, deployed, images).argmax(-1)
    print(f"  accuracy on {len(labels)} test images: {100 * (predicted == labels).mean():.2f} %")
    print(f"  sha256 for the model card: {save(deployed, options.out, NAME)}")


if __name__ == "__main__":
    main()
