"""INT8 networks on the engine, held against FP32 and against integer arithmetic in NumPy."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.calibration.ranges import Range
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import fuse
from quantkit.ir.graph import Graph, Tensor
from quantkit.lowering.int8_draft import calibrated_range, range_attributes
from quantkit.quantization.arithmetic import activation_params, dequantize, quantize
from quantkit.quantization.plan import TensorQuantization
from tests.lowering.on_engine import largest_error, quantized
from tests.networks import DATA, Builder, images, residual_v1, residual_v2

pytestmark = pytest.mark.usefixtures("int8_engine")


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
    _, _, int8 = quantized(graph, data, "conv1")
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
