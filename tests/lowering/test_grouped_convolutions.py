"""Convolutions in groups in INT8 on the engine, held against FP32 and against integer arithmetic in NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.ir.graph import Graph
from quantkit.quantization.arithmetic import activation_params, quantize
from quantkit.quantization.plan import QuantizationPlan
from tests.lowering.on_engine import largest_error, quantized
from tests.networks import DATA, Builder, images
from tests.requirements import requires

pytestmark = pytest.mark.usefixtures("int8_engine")


@pytest.mark.requires("exact-sums")
@pytest.mark.parametrize("groups", [1, 2, 4, 8])
def test_every_channel_of_a_grouped_convolution_is_right(groups: int) -> None:
    b = Builder()
    graph = b.graph(b.conv("last", b.relu("relu", b.conv("conv", DATA, 3, 8)), 8, 8, groups=groups))
    weight = graph.params["last_weight"] * np.linspace(0.2, 1, 8, dtype=np.float32)[:, None, None, None]
    assert largest_error(replace(graph, params={**graph.params, "last_weight": weight}), images()) < 0.03


def in_integers(graph: Graph, plan: QuantizationPlan, data: np.ndarray) -> np.ndarray:
    """The unrounded output of the layers ``conv`` (grouped), ``add`` and ``relu``, those that there are."""
    node = graph.by_name["conv"]
    groups, weight = int(node.attrs["num_group"]), graph.params["conv_weight"]
    given = activation_params(plan.tensors[DATA].range, plan.tensors[DATA].dtype)
    seen = np.pad(quantize(data, given).astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(seen, (3, 3), (2, 3))
    parts = zip(np.split(windows, groups, axis=1), np.split(grouped_integers(weight, groups), groups))
    sums = np.concatenate([np.einsum("nchwij,ocij->nohw", *part) for part in parts], axis=1) * given.scale
    sums += graph.params["conv_bias"][:, None, None] if "conv_bias" in graph.params else 0
    if "add" in graph.by_name:
        addend = plan.tensors[DATA] if plan.tensors[graph.outputs[0]].dtype == "uint8" else None
        form = replace(plan.tensors[DATA], dtype="int8") if addend is None else addend
        other = activation_params(form.range, form.dtype)
        sums += quantize(data, other) * other.scale
    return np.maximum(sums, 0) if "relu" in graph.by_name else sums


def grouped_integers(weight: np.ndarray, groups: int) -> np.ndarray:
    """The weights rounded to their channels' steps, of which the last depend on those of the first."""
    peaks = np.abs(weight).reshape(len(weight), -1).max(axis=1).astype(np.float64)
    found = np.empty(weight.shape)
    for channel, values in enumerate(weight):
        reference = peaks[channel * groups // len(weight)]
        if reference > peaks[channel]:
            peaks[channel] = np.sqrt(peaks[channel] * reference)
        step = peaks[channel] / 127.5
        # A peak that stands for 127.5 steps is rounded away from 0.
        found[channel] = np.clip(np.rint(values.astype(np.float64) / step * (1 + 1e-12)), -128, 127) * step
    return found


@pytest.mark.requires("exact-sums")
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("parts", ["conv", "conv relu", "conv add", "conv add relu"])
@pytest.mark.parametrize("groups", [2, 4, 32])
def test_grouped_convolutions_compute_what_integers_say(groups: int, parts: str, signed: bool) -> None:
    """With channels of very different size, of which the engine itself confuses the scales."""
    if signed:
        requires("onednn")
    b = Builder()
    layer = b.conv("conv", DATA, 64, 64, groups=groups, bias="add" not in parts)
    if "add" in parts:
        layer = b.op("elemwise_add", "add", layer, DATA)
    graph = b.graph(b.relu("relu", layer) if "relu" in parts else layer)
    weight = graph.params["conv_weight"] * np.exp(b.random.normal(size=(64, 1, 1, 1))).astype(np.float32)
    # A negative peak of the first channel may become -127 or -128.
    weight[0] *= np.sign(weight[0].flat[np.abs(weight[0]).argmax()])
    graph = replace(graph, params={**graph.params, "conv_weight": weight})
    data = images(2, 64, 8)
    fused, plan, int8 = quantized(graph, data if signed else np.abs(data))
    assert plan.is_int8(fused.graph.nodes[-1])
    data = data if signed else np.abs(data)
    expected, found = in_integers(graph, plan, data), run(int8, {"data": data})[0]
    coarse = "add relu" in parts and signed
    step = activation_params(plan.tensors[graph.outputs[0]].range, plan.tensors[graph.outputs[0]].dtype).scale
    step *= 2 if coarse else 1
    off = np.abs(found - expected) / step
    # The range is that of FP32: beyond its end integers saturate.
    inside = np.abs(expected) < plan.tensors[graph.outputs[0]].range.largest * 0.99
    assert off[inside].max() < 0.55
    assert inside.mean() > 0.99
    wrong = np.abs(run(graph, {"data": data})[0] - found)
    assert wrong.max() < 0.05 * np.abs(expected).max()


@pytest.mark.requires("onednn")
@pytest.mark.parametrize("groups", [2, 4])
def test_grouped_convolutions_with_three_axes(groups: int) -> None:
    b = Builder()
    weight = b.random.normal(size=(8, 8 // groups, 3, 3, 3)) * np.exp(b.random.normal(size=(8, 1, 1, 1, 1)))
    attrs = {"kernel": (3, 3, 3), "pad": (1, 1, 1), "num_filter": 8, "num_group": groups, "no_bias": True}
    layer = b.op("Convolution", "conv", DATA, b.param("conv_weight", weight), **attrs)
    data = np.abs(np.random.default_rng(1).normal(size=(2, 8, 4, 8, 8))).astype(np.float32)
    graph = b.graph(b.relu("relu", layer))
    fused, plan, _ = quantized(graph, data)
    assert plan.is_int8(fused.graph.nodes[-1])
    assert largest_error(graph, data) < 0.03


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("with_relu", [True, False])
def test_a_pointwise_depthwise_convolution_of_unsigned_input(stride: int, with_relu: bool) -> None:
    """As a batch normalization after a ReLU makes one; MKL-DNN 1.0 without AVX-512 is wrong on it."""
    b = Builder()
    stem = b.relu("relu", b.conv("conv", DATA, 3, 8))
    weight, bias = (b.param(name, b.random.uniform(0.5, 1, shape)) for name, shape in (("w", (8, 1, 1, 1)), ("b", 8)))
    attrs = {"kernel": (1, 1), "stride": (stride, stride), "num_filter": 8, "num_group": 8}
    pointwise = b.op("Convolution", "pointwise", stem, weight, bias, **attrs)
    graph = b.graph(b.relu("last", pointwise) if with_relu else pointwise)
    assert largest_error(graph, images()) < 0.03
