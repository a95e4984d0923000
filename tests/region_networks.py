"""Detectors of two stages with random weights, small ones of GluonCV's blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.compat import load_gluoncv, load_mxnet
from quantkit.models.load import load_model
from quantkit.models.model import Model
from tests.requirements import requires

SIDE = 64
REGIONS = 12
OPTIONS = {
    "classes": ("cat", "dog", "hen"),
    "rpn_channel": 8,
    "ratios": (0.5, 1, 2),
    "rpn_test_pre_nms": 40,
    "rpn_test_post_nms": REGIONS,
    "rpn_min_size": 4,
    "roi_size": (4, 4),
    # No overlap of anchors is as large.
    "rpn_nms_thresh": 0.63,
    "nms_thresh": 0.43,
    "nms_topk": -1,
    "clip": 0.5,
}
ONE_LEVEL = {"scales": (2, 4), "strides": 8, "base_size": 8, "alloc_size": (16, 16)}
LEVELS = {
    "scales": (1, 2, 4),
    "strides": (4, 8, 16),
    "base_size": 16,
    "alloc_size": (32, 32),
    "min_stage": 2,
    "max_stage": 4,
}


@pytest.fixture
def masked_regions(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let GluonCV's own pyramids pool all regions of each level, and leave out those of others afterwards.

    From 1.6 on it numbers their image -1 instead, and MXNet's operator reads memory before the map on CPUs.
    """
    load_gluoncv()
    monkeypatch.delattr(load_mxnet().nd.contrib, "box_encode")


def sequential(*layers: Any) -> Any:
    block = load_mxnet().gluon.nn.HybridSequential()
    block.add(*layers)
    return block


def backbone(levels: bool) -> Any:
    nn = load_mxnet().gluon.nn
    stem = sequential(nn.Conv2D(6, 4, strides=4), nn.Activation("tanh"))
    if not levels:
        return sequential(stem, nn.Conv2D(6, 2, strides=2))

    class Pyramid(nn.HybridBlock):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.stem = stem
            self.second, self.third = (nn.Conv2D(6, 2, strides=2) for _ in range(2))

        def hybrid_forward(self, F: Any, x: Any) -> list[Any]:  # noqa: N803 (Gluon's name)
            first = self.stem(x)
            second = self.second(first)
            return [first, second, self.third(second)]

    return Pyramid()


def network(kind: str, levels: bool, **options: Any) -> Any:
    """A block with random weights."""
    load_gluoncv()
    from gluoncv.model_zoo.rcnn.faster_rcnn import doublehead_rcnn, faster_rcnn
    from gluoncv.model_zoo.rcnn.mask_rcnn import mask_rcnn

    nn = load_mxnet().gluon.nn
    every = {**OPTIONS, **(LEVELS if levels else ONE_LEVEL), **options}
    top = nn.Conv2D(6, 3, strides=2, padding=1)
    if kind == "mask":
        # MXNet 1.6 does not check the places that gather_nd reads, and is not given it.
        requires("onednn")
        block = mask_rcnn.MaskRCNN(backbone(levels), top, mask_channels=4, rcnn_max_dets=5, **every)
    elif kind == "double":
        block = doublehead_rcnn.DoubleHeadRCNN(backbone(levels), top, **every)
    else:
        block = faster_rcnn.FasterRCNN(backbone(levels), top, **every)
    block.initialize()
    block(load_mxnet().nd.array(photographs(1)))
    generator = np.random.default_rng(3)
    for name, parameter in block.collect_params(".*weight").items():
        # Scores that differ, and boxes near their anchors.
        size = 3.0 if "dense" in name else 1.0
        values = generator.normal(size=parameter.shape) / np.sqrt(np.prod(parameter.shape[1:]))
        parameter.set_data(load_mxnet().nd.array(size * values))
    return block


def photographs(count: int) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(count, 3, SIDE, SIDE)).astype(np.float32)


def loaded(block: Any) -> Model:
    return load_model(block, input_shape=(3, SIDE, SIDE))
