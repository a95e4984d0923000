"""INT8 networks on the engine, held against FP32 and against integer arithmetic in NumPy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.calibration.collect import collect_ranges
from quantkit.calibration.ranges import Range
from quantkit.calibration.table import CalibrationTable
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import Fused, fuse
from quantkit.ir.graph import Graph, Tensor
from quantkit.lowering.int8_draft import calibrated_range, range_attributes
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.quantization.arithmetic import activation_params, dequantize, quantize
from quantkit.quantization.plan import QuantizationPlan, TensorQuantization
from quantkit.quantization.planning import calibration_targets, make_plan
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import DATA, Builder, images, residual_v1, residual_v2
from tests.requirements import requires

pytestmark = pytest.mark.usefixtures("int8_engine")


def quantized(graph: Graph, data: np.ndarray, exclude: Sequence[str] = ()) -> tuple[Fused, QuantizationPlan, Graph]:
    fused = fuse(graph, data.shape[1:])
    targets = calibration_targets(fused.graph)
    ranges = collect_ranges(float_graph(fused.graph), targets, [data], len(data), "minmax")
    table = CalibrationTable("minmax", len(data), "random", ranges, "0" * 64, "0" * 64)
    plan = make_plan(fused, table, exclude)
    return fused, plan, int8_graph(QuantizedGraph(fused.graph, plan))


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def ops(graph: Graph) -> Counter[str]:
    return Counter(node.op for node in graph.nodes)


@pytest.mark.parametrize("graph", [residual_v1(), residual_v1(True), residual_v2()], ids=["v1", "v1-conv", "v2"])
def test_close_to_fp32(graph: Graph) -> None:
    data = images()
    _, _, int8 = quantized(graph, data)
    assert cosine(run(graph, {"data": data})[0], run(int8, {"data": data})[0]) > 0.999
    assert [str(tensor) for tensor in int8.outputs] == ["dense"]
    assert all(node.attrs.get("quantized") == "true" for node in int8.nodes if node.op.startswith("_sg_mkldnn"))


def test_a_convolution_computes_what_integers_say() -> None:
    b = Builder()
    graph = b.graph(b.relu("relu", b.conv("conv", DATA, 3, 8, kernel=1)))
    # Unsigned: without VNNI the kernels for signed input keep weights in 7 bits.
    data = np.abs(images())
    _, plan, int8 = quantized(graph, data)
    given, wanted = (activation_params(plan.tensors[t].range, plan.tensors[t].dtype) for t in (DATA, Tensor("relu")))
    weight, bias = graph.params["conv_weight"][:, :, 0, 0], graph.params["conv_bias"]
    weight_scale = np.abs(weight).max(axis=1) / 127.5
    # The largest weight of a channel lies on the tie between 127 and 128.
    integers = np.clip(np.rint(weight * (np.float32(127.5) / np.abs(weight).max(axis=1))[:, None]), -128, 127)
    sums = np.einsum("oc,nchw->nohw", integers, quantize(data, given).astype(np.float64))
    sums += np.rint(bias / (weight_scale * given.scale))[:, None, None]
    reals = np.maximum(sums * (weight_scale * given.scale)[:, None, None], 0)
    expected = dequantize(quantize(reals, wanted), wanted)
    found = run(int8, {"data": data})[0]
    # Without VNNI some sums saturate in 16 bits, here a few of ten thousand.
    assert (np.abs(found - expected) > 0.01 * wanted.scale).mean() < 1e-3


def test_a_signed_shortcut_does_not_clip_the_sum() -> None:
    """Stock MXNet saturates this sum at half its range."""
    graph = residual_v1(signed_shortcut=True)
    data = images()
    fused, plan, int8 = quantized(graph, data)
    node = int8.by_name["quantized_relu2"]
    assert float(node.attrs["max_calib_range"]) == pytest.approx(2 * plan.tensors[Tensor("relu2")].range.high)
    expected = run(float_graph(fused.graph).with_outputs([Tensor("relu2")]).pruned(), {"data": data})[0]
    exposed = int8.with_outputs([Tensor("relu2")]).pruned()
    found = run(exposed, {"data": data})[0]
    assert found.max() > 0.95 * expected.max()
    assert cosine(expected, found) > 0.999


def test_an_unsigned_addend_of_a_signed_sum_is_converted() -> None:
    b = Builder()
    stem = b.relu("relu", b.conv("conv0", DATA, 3, 8))
    graph = b.graph(b.conv("last", b.op("elemwise_add", "add", b.conv("conv1", stem, 8, 8), stem), 8, 8))
    data = images()
    _, plan, int8 = quantized(graph, data)
    assert plan.tensors[Tensor("relu")].dtype == "uint8"
    assert plan.tensors[Tensor("add")].dtype == "int8"
    assert cosine(run(graph, {"data": data})[0], run(int8, {"data": data})[0]) > 0.999


@pytest.mark.parametrize("factor", [1e-9, 1e6])
def test_tiny_and_huge_ranges_survive(factor: float) -> None:
    b = Builder()
    graph = b.graph(b.relu("relu", b.conv("conv", DATA, 3, 8, bias=False)))
    data = images() * np.float32(factor)
    _, _, int8 = quantized(graph, data)
    assert cosine(run(graph, {"data": data})[0], run(int8, {"data": data})[0]) > 0.999


def test_dead_channels_survive() -> None:
    b = Builder()
    graph = b.graph(b.relu("relu", b.conv("conv", DATA, 3, 8)))
    weight = graph.params["conv_weight"].copy()
    weight[2], weight[5] = 0.0, weight[5] * np.float32(1e-25)
    graph = replace(graph, params={**graph.params, "conv_weight": weight, "conv_bias": np.full(8, 0.7, np.float32)})
    data = images()
    expected, found = (run(form, {"data": data})[0] for form in (graph, quantized(graph, data)[2]))
    np.testing.assert_allclose(found, expected, atol=0.02 * expected.max())


def test_relu6_saturates_at_six() -> None:
    b = Builder()
    graph = b.graph(b.op("clip", "clip", b.conv("conv", DATA, 3, 8), a_min=0, a_max=0.5))
    data = images()
    expected, found = (run(form, {"data": data})[0] for form in (graph, quantized(graph, data)[2]))
    assert found.max() == pytest.approx(0.5, abs=0.002)
    assert cosine(expected, found) > 0.999


def test_dense_layers_keep_a_scale_for_each_channel_and_their_exact_bias() -> None:
    b = Builder()
    graph = b.graph(b.dense("dense", DATA, 768, 10))
    weight = graph.params["dense_weight"] * np.logspace(-4, 0, 10, dtype=np.float32)[:, None]
    graph = replace(graph, params={**graph.params, "dense_weight": weight})
    data = images()
    bias = graph.params["dense_bias"]
    expected, found = (run(form, {"data": data})[0] - bias for form in (graph, quantized(graph, data)[2]))
    for channel in range(10):
        assert cosine(expected[:, channel], found[:, channel]) > 0.999


@pytest.mark.requires("exact-sums")
def test_hidden_dense_layers() -> None:
    b = Builder()
    graph = b.graph(b.dense("out", b.relu("relu", b.dense("hidden", DATA, 768, 32)), 32, 10))
    data = images()
    _fused, _plan, int8 = quantized(graph, data)
    assert ops(int8)["_sg_mkldnn_fully_connected"] == 2
    assert cosine(run(graph, {"data": data})[0], run(int8, {"data": data})[0]) > 0.999


def test_concat_pooling_and_flatten_stay_in_int8() -> None:
    b = Builder()
    left, right = b.relu("left", b.conv("conv0", DATA, 3, 8)), b.conv("conv1", DATA, 3, 8)
    both = b.op("Concat", "concat", left, right, dim=1, num_args=2)
    pooled = b.op("Pooling", "pool", both, kernel=(2, 2), stride=(2, 2), pool_type="max")
    graph = b.graph(b.dense("dense", b.op("Flatten", "flatten", pooled), 1024, 10))
    data = images()
    _, plan, int8 = quantized(graph, data)
    assert [d.node for d in plan.decisions.values() if d.precision == "fp32"] == []
    assert ops(int8)["_contrib_dequantize"] == 0
    assert cosine(run(graph, {"data": data})[0], run(int8, {"data": data})[0]) > 0.999


def test_an_addition_that_no_convolution_takes() -> None:
    b = Builder()
    first, second = b.relu("first", b.conv("conv0", DATA, 3, 8)), b.relu("second", b.conv("conv1", DATA, 3, 8))
    graph = b.graph(b.conv("last", b.op("elemwise_add", "add", first, second), 8, 8))
    data = images()
    _, _, int8 = quantized(graph, data)
    assert ops(int8)["_contrib_quantized_elemwise_add"] == 1
    assert cosine(run(graph, {"data": data})[0], run(int8, {"data": data})[0]) > 0.999


def test_excluded_layers_run_in_fp32_and_the_rest_around_them_in_int8() -> None:
    graph = residual_v1()
    data = images()
    _, _, int8 = quantized(graph, data, exclude=["conv1"])
    assert int8.by_name["relu1"].op == "_sg_mkldnn_conv"
    assert "quantized" not in int8.by_name["relu1"].attrs
    assert cosine(run(graph, {"data": data})[0], run(int8, {"data": data})[0]) > 0.999


def test_several_outputs_keep_their_names() -> None:
    b = Builder()
    stem = b.relu("relu", b.conv("conv0", DATA, 3, 8))
    graph = b.graph(b.conv("last", stem, 8, 8), stem)
    data = images()
    _, _, int8 = quantized(graph, data)
    assert int8.outputs == graph.outputs
    for expected, found in zip(run(graph, {"data": data}), run(int8, {"data": data})):
        assert cosine(expected, found) > 0.999


def test_range_attributes_keep_full_precision() -> None:
    attrs = range_attributes(calibrated_range(TensorQuantization(Range(-1e-9, 1.23456789e-9), "int8")))
    assert float(attrs["max_calib_range"]) == pytest.approx(1.23456789e-9, rel=1e-7)
    assert attrs["min_calib_range"] == "-" + attrs["max_calib_range"]


def largest_error(graph: Graph, data: np.ndarray) -> float:
    """Of any element, over the largest value; unlike a cosine it sees one wrong channel or border."""
    expected, found = (run(form, {"data": data})[0] for form in (graph, quantized(graph, data)[2]))
    return float(np.abs(found - expected).max() / np.abs(expected).max())


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
    assert largest_error(b.graph(b.relu("relu", layer)), data) < 0.03


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("convention", ["valid", "full"])
@pytest.mark.parametrize("count_include_pad", [True, False])
@pytest.mark.parametrize("pad", [0, 1])
def test_pooling_up_to_the_last_row(kind: str, convention: str, count_include_pad: bool, pad: int) -> None:
    b = Builder()
    attrs = {"pool_type": kind, "pooling_convention": convention, "count_include_pad": count_include_pad}
    stem = b.relu("relu", b.conv("conv", DATA, 3, 8))
    graph = b.graph(b.op("Pooling", "pool", stem, kernel=(3, 3), stride=(2, 2), pad=(pad, pad), **attrs))
    assert largest_error(graph, images()) < 0.03


@pytest.mark.requires("onednn")
@pytest.mark.parametrize("attrs", [
    {"kernel": (1, 2, 2), "stride": (1, 2, 2), "pool_type": "max", "layout": "NCDHW"},
    {"kernel": (2, 3, 2), "stride": (2, 2, 1), "pad": (0, 1, 1), "pool_type": "max", "pooling_convention": "full"},
    {"kernel": (3, 3, 3), "pad": (1, 1, 1), "pool_type": "avg", "count_include_pad": False},
    {"kernel": (1, 1, 1), "global_pool": True, "pool_type": "max"},
    {"global_pool": True, "pool_type": "max"},
])  # fmt: skip
def test_pooling_of_clips(attrs: dict[str, object]) -> None:
    b = Builder()
    weight = b.param("conv_weight", b.random.normal(size=(8, 3, 1, 1, 1)))
    layer = b.op("Convolution", "conv", DATA, weight, kernel=(1, 1, 1), num_filter=8, no_bias=True)
    graph = b.graph(b.op("Pooling", "pool", b.relu("relu", layer), **attrs))
    data = np.random.default_rng(1).normal(size=(2, 3, 5, 8, 8)).astype(np.float32)
    assert largest_error(graph, data) < 0.03
    pooled = ops(quantized(graph, data)[2])["_contrib_quantized_pooling"]
    assert pooled == ("kernel" in attrs)


@pytest.mark.requires("exact-sums")
def test_pooling_of_sequences() -> None:
    b = Builder()
    layer = b.op("FullyConnected", "dense", DATA, b.param("w", b.random.normal(size=(8, 6))), num_hidden=8,
                 no_bias=True, flatten=False)  # fmt: skip
    graph = b.graph(b.op("Pooling", "pool", b.relu("relu", layer), kernel=(2,), stride=(2,), pool_type="max"))
    data = np.random.default_rng(1).normal(size=(2, 4, 6)).astype(np.float32)
    assert largest_error(graph, data) < 0.03


def test_global_max_pooling_without_a_kernel() -> None:
    b = Builder()
    pooled = b.op("Pooling", "pool", b.relu("relu", b.conv("conv", DATA, 3, 8)), global_pool=True, pool_type="max")
    assert largest_error(b.graph(pooled), images()) < 0.03


def test_a_clip_survives_a_concatenation_with_a_wide_branch() -> None:
    b = Builder()
    clipped = b.op("clip", "clip", b.conv("conv0", DATA, 3, 8), a_min=0, a_max=0.1)
    wide = b.relu("wide", b.conv("conv1", DATA, 3, 8))
    graph = b.graph(b.op("Concat", "concat", clipped, wide, dim=1, num_args=2))
    found = run(quantized(graph, images())[2], {"data": images()})[0]
    assert found[:, :8].max() < 0.12


def test_convolutions_that_only_feed_a_concatenation_round_to_its_scale() -> None:
    b = Builder()
    narrow = b.relu("narrow", b.op("_mul_scalar", "tenth", b.relu("stem", b.conv("conv0", DATA, 3, 8)), scalar=0.1))
    first, second = b.relu("first", b.conv("conv1", narrow, 8, 8)), b.relu("second", b.conv("conv2", DATA, 3, 8))
    graph = b.graph(b.op("Concat", "concat", first, second, dim=1, num_args=2))
    _, plan, _ = quantized(graph, images())
    assert plan.tensors[Tensor("first")] == plan.tensors[Tensor("concat")]
    shared = b.graph(b.op("Concat", "again", first, second, dim=1, num_args=2), first)
    _, plan, _ = quantized(shared, images())
    assert plan.tensors[Tensor("first")] != plan.tensors[Tensor("again")]


@pytest.mark.requires("exact-sums")
def test_parts_of_a_split_and_the_operator_relu() -> None:
    b = Builder()
    split = b.op("SliceChannel", "split", b.op("relu", "relu", b.conv("conv", DATA, 3, 8)), num_outputs=2, axis=1)
    second = Tensor(split.node, 1)
    pointwise = b.conv("pointwise", second, 4, 4, kernel=1)
    total = b.op("elemwise_add", "add", pointwise, b.batch_norm("bn", second, 4))
    graph = b.graph(b.op("relu", "last", total), split)
    assert largest_error(graph, images()) < 0.03


def test_names_of_the_user_that_look_like_ours() -> None:
    b = Builder()
    stem = b.relu("quantized_dense", b.conv("dense_scaled", DATA, 3, 8))
    graph = b.graph(b.dense("dense", b.op("Flatten", "quantized_dense_scaled", stem), 2048, 10))
    assert largest_error(graph, images()) < 0.03


def test_weights_that_are_computed_follow_the_input() -> None:
    """The engine's fused layers would keep the weights of the first run."""
    from quantkit.backends.mxnet.stream import outputs_of

    b = Builder()
    b.param("weight", b.random.normal(size=(4, 768)))
    scale = b.op("Reshape", "scale", b.op("mean", "mean", DATA), shape=(1, 1))
    weight = b.op("broadcast_mul", "weights", scale, Tensor("weight"))
    graph = b.graph(b.relu("relu", b.op("FullyConnected", "dense", DATA, weight, num_hidden=4, no_bias=True)))
    fused = float_graph(fuse(graph, (3, 16, 16)).graph)
    batches = [images() + np.float32(offset) for offset in (1, 5)]
    for expected, found in zip(outputs_of(graph, batches, 4), outputs_of(fused, batches, 4)):
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-4)


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
