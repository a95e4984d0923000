"""Train the segmentation network that ships with quantkit: a small FCN on scenes of scikit-learn's handwritten digits.

    python models/train_digits_fcn.py --out models/
    quantkit evaluate digits_fcn --task segmentation --data scenes:test

The scenes are those of ``scenes:train``: digits over photographs that ship with scikit-image and scikit-learn, so
nothing is downloaded. Maps of strides 8 and 16 are enlarged and joined with finer ones, as in Long et al., "Fully
convolutional networks for semantic segmentation" (CVPR 2015), but by concatenation. Training takes some minutes on two
cores; the seed fixes weights, order and noise, and the last digits of the result depend on the engine and on the number
of its threads.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np
from scene_training import Batch, convolutions, save_trained, train

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.data.scenes import DIGITS, SIDE

NAME = "digits_fcn"

_CLASSES = 1 + len(DIGITS)
_FINE, _MIDDLE, _COARSE = ((16, 2), (32, 2), (32, 1)), ((64, 2), (64, 1)), ((96, 2), (96, 1))
# Most pixels are background.
_BACKGROUND_WEIGHT = 0.4


def build(mxnet: Any) -> Any:
    """The network as a Gluon block, not initialized."""
    nn = mxnet.gluon.nn

    class Fcn(mxnet.gluon.HybridBlock):  # type: ignore[misc]
        """Scores of each class at every pixel."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            with self.name_scope():
                self.fine, self.middle, self.coarse = (convolutions(nn, layers) for layers in (_FINE, _MIDDLE, _COARSE))
                self.joined, self.joined_fine = convolutions(nn, ((64, 1),)), convolutions(nn, ((32, 1),))
                self.scores = nn.Conv2D(_CLASSES, 1)

        def hybrid_forward(self, operators: Any, x: Any) -> Any:
            """Three strides, joined from coarse to fine."""
            fine = self.fine(x)
            middle = self.middle(fine)
            joined = self.joined(operators.concat(_enlarged(operators, self.coarse(middle), 8), middle, dim=1))
            joined = self.joined_fine(operators.concat(_enlarged(operators, joined, 4), fine, dim=1))
            return _enlarged(operators, self.scores(joined), 1)

    return Fcn(prefix=f"{NAME}_")


def _enlarged(operators: Any, maps: Any, stride: int) -> Any:
    side = SIDE // stride
    return operators.contrib.BilinearResize2D(maps, height=side, width=side)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Train and save the network."""
    parser = argparse.ArgumentParser(description="Train a small FCN on scenes of handwritten digits.")
    parser.add_argument("--out", type=Path, default=Path("models"), help="folder for the checkpoint (default: models)")
    parser.add_argument("--epochs", type=int, default=4, help="passes over the 4,000 scenes (default: 4)")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    options = parser.parse_args(arguments)
    mxnet = load_mxnet()
    mxnet.random.seed(options.seed)
    network = build(mxnet)
    network.initialize(mxnet.init.MSRAPrelu(slope=0.0))
    entropy = mxnet.gluon.loss.SoftmaxCrossEntropyLoss(axis=1)

    def loss_of(batch: Batch) -> Any:
        weights = np.where(batch.classes == 0, _BACKGROUND_WEIGHT, 1.0)[:, None]
        data, classes, weighted = (mxnet.nd.array(each) for each in (batch.data, batch.classes, weights))
        return entropy(network(data), classes, weighted).mean()

    network.hybridize(static_alloc=True)
    train(mxnet, network, options.epochs, options.seed, loss_of)
    save_trained(mxnet, network, options.out, NAME)


if __name__ == "__main__":
    main()
