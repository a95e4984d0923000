"""GluonCV's detectors of two stages as symbols compute what GluonCV's own blocks do, for batches of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantkit.api import quantize
from quantkit.backends.mxnet.compat import load_gluoncv, load_mxnet
from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.regions import pooled
from quantkit.diagnosis.coverage import coverage
from quantkit.errors import ModelError
from quantkit.models.load import load_model
from quantkit.models.model import Model
from quantkit.quantization.config import QuantizationConfig
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


@pytest.fixture(autouse=True)
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


@pytest.mark.parametrize("levels", [False, True], ids=["one level", "pyramid"])
@pytest.mark.parametrize("kind", ["faster", "double", "mask"])
def test_each_image_of_a_batch_is_as_gluoncv_has_it(engine: None, kind: str, levels: bool) -> None:
    block = network(kind, levels)
    model, data = loaded(block), photographs(2)
    computed = run(model.graph, {"data": data})
    for number, image in enumerate(data):
        expected = block(load_mxnet().nd.array(image[None]))
        assert (expected[0].asnumpy() >= 0).sum() > 3
        for values, wanted in zip(computed, expected, strict=True):
            np.testing.assert_allclose(values[number], wanted.asnumpy()[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("options", [{"force_nms": True}, {"clip": None}], ids=["across classes", "not clipped"])
def test_options(engine: None, options: dict[str, Any]) -> None:
    block = network("faster", levels=False, **options)
    model, data = loaded(block), photographs(1)
    for values, wanted in zip(run(model.graph, {"data": data}), block(load_mxnet().nd.array(data)), strict=True):
        np.testing.assert_allclose(values, wanted.asnumpy(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["double", "mask"])
def test_all_layers_run_in_int8(int8_engine: None, kind: str) -> None:
    data = photographs(4)
    quantized = quantize(loaded(network(kind, levels=True)), data, config=QuantizationConfig(num_samples=4))
    covered = coverage(quantized.source.fused, quantized.plan.decisions.values())
    assert (covered.share, covered.left) == (1.0, ())
    outputs = run(quantized.graph, {"data": data})
    assert all(np.isfinite(values).all() for values in outputs)
    assert (outputs[0] >= 0).any()


def test_regions_that_are_not_aligned_are_refused(engine: None) -> None:
    with pytest.raises(ModelError, match="roi_mode='align'"):
        load_model(network("faster", levels=False, roi_mode="pool"), input_shape=(3, SIDE, SIDE))


def aligned(features: np.ndarray, boxes: np.ndarray, size: tuple[int, int], stride: float) -> np.ndarray:
    mxnet = load_mxnet()
    symbol = pooled(mxnet.sym, mxnet.sym.var("features"), mxnet.sym.var("boxes"), size, stride)
    given = {"features": mxnet.nd.array(features), "boxes": mxnet.nd.array(boxes)}
    values: np.ndarray = symbol.bind(mxnet.cpu(), given).forward()[0].asnumpy()
    return values


def test_regions_are_pooled_as_mxnets_operator_does(engine: None) -> None:
    """Inside of the map, at and across its borders, far outside, of no extent, and turned inside out."""
    mxnet = load_mxnet()
    features = np.random.default_rng(0).normal(size=(2, 3, 7, 9)).astype(np.float32)
    corners = [(8, 4, 40, 24), (0, 0, 36, 28), (-6, -9, 20, 50), (-90, 3, -60, 20), (30, 20, 60, 44), (9, 9, 9, 9),
               (20, 20, 4, 4), (-1, -1, -1, -1), (35, 27, 36, 28)]  # fmt: skip
    boxes = np.array([corners, corners[::-1]], np.float32)
    numbered = np.concatenate([np.repeat([[[0]], [[1]]], len(corners), axis=1), boxes], axis=2).reshape(-1, 5)
    expected = mxnet.nd.contrib.ROIAlign(
        mxnet.nd.array(features), mxnet.nd.array(numbered), (3, 2), 0.25, sample_ratio=2
    ).asnumpy()
    assert np.abs(expected).max() > 0.5
    np.testing.assert_allclose(aligned(features, boxes, (3, 2), 4), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_boxes_that_are_no_numbers_harm_nothing(engine: None, value: float) -> None:
    features = np.ones((1, 2, 5, 5), np.float32)
    boxes = np.array([[[0, 0, 8, 8], [value, 0, 8, 8], [0, 0, value, value], [value] * 4]], np.float32)
    np.testing.assert_allclose(aligned(features, boxes, (2, 2), 2)[0], 1, rtol=1e-6)
