"""Train the detector that ships with quantkit: a small SSD on scenes of scikit-learn's handwritten digits.

    python models/train_digits_ssd.py --out models/
    quantkit evaluate digits_ssd --task detection --data scenes:test

The scenes are those of ``scenes:train``: digits over photographs that ship with scikit-image and scikit-learn, so
nothing is downloaded. The network is GluonCV's SSD on a small base: two feature maps, of strides 8 and 16, and four
anchors at each place. Training takes some minutes on two cores; the seed fixes weights, order and noise, and the last
digits of the result depend on the engine and on the number of its threads.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np
from scene_training import Batch, convolutions, save_trained, train

from quantkit.backends.mxnet.compat import load_gluoncv, load_mxnet
from quantkit.data.boxes import Boxes
from quantkit.data.scenes import DIGITS, SIDE

NAME = "digits_ssd"

_FINE = ((16, 2), (32, 2), (32, 1), (64, 2), (64, 1), (64, 1))
_COARSE = ((128, 2), (128, 1))
# Most digits are taller than wide.
_SIZES, _RATIOS, _STEPS = (16, 24, 36), ((1, 0.75, 0.5),) * 2, (8, 16)
_MOST_OBJECTS = 4


def build(mxnet: Any, gluoncv: Any) -> Any:
    """The network as a Gluon block, not initialized."""

    class Features(mxnet.gluon.HybridBlock):  # type: ignore[misc]
        """Two feature maps."""

        def __init__(self, **_: Any) -> None:
            super().__init__()
            with self.name_scope():
                self.fine = convolutions(mxnet.gluon.nn, _FINE)
                self.coarse = convolutions(mxnet.gluon.nn, _COARSE)

        def hybrid_forward(self, operators: Any, x: Any) -> list[Any]:
            """The maps of strides 8 and 16."""
            fine = self.fine(x)
            return [fine, self.coarse(fine)]

    return gluoncv.model_zoo.SSD(
        None, SIDE, Features, (), _SIZES, _RATIOS, _STEPS, DIGITS, anchor_alloc_size=SIDE // _STEPS[0], post_nms=20,
        prefix=f"{NAME}_",
    )  # fmt: skip


def truths(boxes: Sequence[Boxes]) -> tuple[np.ndarray, np.ndarray]:
    """The objects of several scenes as SSD's targets are made from: padded with -1.

    Returns:
        float32 edges of shape (scenes, 4, 4), and classes of shape (scenes, 4, 1).
    """
    edges = np.full((len(boxes), _MOST_OBJECTS, 4), -1, np.float32)
    classes = np.full((len(boxes), _MOST_OBJECTS, 1), -1, np.float32)
    for index, each in enumerate(boxes):
        edges[index, : len(each)] = each.corners
        classes[index, : len(each), 0] = each.labels
    return edges, classes


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Train and save the network."""
    parser = argparse.ArgumentParser(description="Train a small SSD on scenes of handwritten digits.")
    parser.add_argument("--out", type=Path, default=Path("models"), help="folder for the checkpoint (default: models)")
    parser.add_argument("--epochs", type=int, default=8, help="passes over the 4,000 scenes (default: 8)")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    options = parser.parse_args(arguments)
    mxnet, gluoncv = load_mxnet(), load_gluoncv()
    from gluoncv.loss import SSDMultiBoxLoss
    from gluoncv.model_zoo.ssd.target import SSDTargetGenerator

    mxnet.random.seed(options.seed)
    network = build(mxnet, gluoncv)
    network.initialize(mxnet.init.MSRAPrelu(slope=0.0))
    targets, multi_box = SSDTargetGenerator(negative_mining_ratio=-1), SSDMultiBoxLoss()

    def loss_of(batch: Batch) -> Any:
        scores, offsets, anchors = network(mxnet.nd.array(batch.data))
        edges, classes = map(mxnet.nd.array, truths(batch.boxes))
        with mxnet.autograd.pause():
            wanted, wanted_offsets, _ = targets(anchors, None, edges, classes)
        sums, _, _ = multi_box(scores, offsets, wanted, wanted_offsets)
        return sums[0].mean()

    network.hybridize(static_alloc=True)
    train(mxnet, network, options.epochs, options.seed, loss_of)
    save_trained(mxnet, network, options.out, NAME)


if __name__ == "__main__":
    main()
