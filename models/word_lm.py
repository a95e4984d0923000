"""Write GluonNLP's standard LSTM language model of words with random weights, to measure speed.

    python models/word_lm.py --units 650 --out build/

writes build/word_lm_650-symbol.json, -0000.params and .npz: two LSTM layers of as many units as the embedding has
numbers, whose weights are those of the output layer, too (GluonNLP's standard_lstm_lm_200 and standard_lstm_lm_650),
layout NTC, from zero states; and sequences of 35 random words, int64 (x), with the next words (y). The seed fixes
weights and words.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import numpy as np
from checkpoint import save
from recurrent_training import Shape, build

from quantkit.backends.mxnet.compat import load_mxnet

WIKITEXT_2 = 33278
"""The number of words in the vocabulary of WikiText-2."""

STEPS = 35

_SEQUENCES = 64


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Write the network and its sequences."""
    parser = argparse.ArgumentParser(description="Write a word-level LSTM language model with random weights.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the checkpoint and the sequences")
    parser.add_argument("--units", type=int, default=200, help="of the embedding and both layers (default: 200)")
    parser.add_argument("--vocabulary", type=int, default=WIKITEXT_2, help=f"words (default: {WIKITEXT_2})")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    options = parser.parse_args(arguments)
    name = f"word_lm_{options.units}"
    mxnet = load_mxnet()
    mxnet.random.seed(options.seed)
    shape = Shape(options.units, options.units, 2, classes=options.vocabulary, vocabulary=options.vocabulary, tied=True)
    network = build(mxnet, shape, f"{name}_")
    network.initialize(mxnet.init.Uniform(0.1))
    words = np.random.default_rng(options.seed).integers(options.vocabulary, size=(_SEQUENCES, STEPS + 1))
    network(mxnet.nd.array(words[:1, :-1]))
    save(network, options.out, name)
    np.savez_compressed(options.out / f"{name}.npz", x=words[:, :-1], y=words[:, 1:])
    print(options.out / name)


if __name__ == "__main__":
    main()
