"""GluonCV's detectors of two stages as symbols compute what GluonCV's own blocks do, for batches of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantkit.api import quantize
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.regions import pooled
from quantkit.diagnosis.coverage import coverage
from quantkit.errors import ModelError
from quantkit.quantization.config import QuantizationConfig
from tests.region_networks import loaded, network, photographs
from tests.region_networks import masked_regions as masked_regions

pytestmark = pytest.mark.usefixtures("masked_regions")


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


@pytest.mark.long
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
        loaded(network("faster", levels=False, roi_mode="pool"))


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
