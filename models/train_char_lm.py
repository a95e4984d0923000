"""Train the language model that ships with quantkit: an LSTM that predicts the next character of NumPy's documentation.

    python models/train_char_lm.py --out models/
    python models/train_char_lm.py --data-out build/

The second command trains nothing: it writes char_lm-train.npz and char_lm-test.npz, windows of 100 characters as int64
ids (x) and of each character the one that follows (y). Ids are those of ``numpy_text``, nothing is downloaded. Training
takes some twenty minutes on one core; the seed fixes weights, order and dropout, and the last digits of the result
depend on the engine and on the number of its threads.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Optional

import numpy as np
from checkpoint import save
from numpy_text import VOCABULARY, Text, encoded, numpy_text, windows
from recurrent_training import Batch, Shape, build, cross_entropy, logits, train, without_dropout

from quantkit.backends.mxnet.compat import load_mxnet

NAME = "char_lm"
STEPS = 100
SHAPE = Shape(features=64, hidden=176, layers=2, classes=VOCABULARY, vocabulary=VOCABULARY)

_PREFIX = f"{NAME}_"


def batches(text: str, epochs: int, batch_size: int, seed: int) -> Iterator[Batch]:
    """``epochs`` passes over a text in windows of ``STEPS`` characters, cut and ordered anew for each pass."""
    ids, random = encoded(text), np.random.default_rng(seed)
    for _ in range(epochs):
        inputs, targets = windows(ids, STEPS, int(random.integers(STEPS)))
        order = random.permutation(len(inputs))
        for first in range(0, _batches(text, batch_size) * batch_size, batch_size):
            chosen = order[first : first + batch_size]
            yield inputs[chosen], targets[chosen]


def _batches(text: str, batch_size: int) -> int:
    """How many whole batches a pass has, wherever its first window begins."""
    return (len(text) - STEPS) // STEPS // batch_size


def sha256_of_text(text: Text) -> str:
    """Of what is trained and tested on; another version of NumPy has another."""
    return hashlib.sha256((text.train + text.test).encode()).hexdigest()


def write_data(text: Text, out: Path) -> None:
    """Write the windows to train and to test on."""
    out.mkdir(parents=True, exist_ok=True)
    for split, characters in (("train", text.train), ("test", text.test)):
        inputs, targets = windows(encoded(characters), STEPS)
        path = out / f"{NAME}-{split}.npz"
        np.savez_compressed(path, x=inputs, y=targets)
        print(f"{path}: {len(inputs)} windows")


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Train, test and save the network, or write its data."""
    parser = argparse.ArgumentParser(description="Train a character-level language model on NumPy's documentation.")
    parser.add_argument("--out", type=Path, default=Path("models"), help="folder for the checkpoint (default: models)")
    parser.add_argument("--data-out", type=Path, help="write the data into this folder, and train nothing")
    parser.add_argument("--epochs", type=int, default=36, help="passes over the text (default: 36)")
    parser.add_argument("--batch-size", type=int, default=32, help="windows a step (default: 32)")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    options = parser.parse_args(arguments)
    text = numpy_text()
    print(f"NumPy {np.__version__}: {len(text.train)} characters to train on, {len(text.test)} to test on")
    print(f"sha256 of both: {sha256_of_text(text)}", flush=True)
    if options.data_out is not None:
        write_data(text, options.data_out)
        return
    mxnet = load_mxnet()
    mxnet.random.seed(options.seed)
    network = build(mxnet, SHAPE, _PREFIX, dropout=0.1)
    network.initialize(mxnet.init.Xavier())
    steps = options.epochs * _batches(text.train, options.batch_size)
    passes = batches(text.train, options.epochs, options.batch_size, options.seed)
    train(mxnet, network, passes, steps, learning_rate=3e-3)
    deployed = without_dropout(mxnet, network, SHAPE, _PREFIX)
    inputs, targets = windows(encoded(text.test), STEPS)
    outputs = logits(mxnet, deployed, inputs)
    loss, top1 = cross_entropy(outputs, targets), 100 * float((outputs.argmax(-1) == targets).mean())
    print(f"on {targets.size} characters of the test: {top1:.2f} % predicted")
    print(f"  {loss / np.log(2):.4f} bits per character, perplexity {np.exp(loss):.4f}")
    print(f"  sha256 for the model card: {save(deployed, options.out, NAME)}")


if __name__ == "__main__":
    main()
