"""INT8 networks on the engine, held against FP32 and against integer arithmetic in NumPy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from quantkit.calibration.collect import collect_ranges
from quantkit.calibration.ranges import Range
from quantkit.calibration.table import CalibrationTable
from quantkit.emission.mxnet_float import float_graph
from quantkit.emission.mxnet_int8 import int8_graph
from quantkit.engine.execute import run
from quantkit.fusion.fuse import Fused, fuse
from quantkit.graph.graph import Graph, Tensor
from quantkit.quantization.arithmetic import activation_params, dequantize, quantize
from quantkit.quantization.plan import Plan, calibration_targets, make_plan
from tests.networks import DATA, Builder, images, residual_v1, residual_v2

pytestmark = pytest.mark.usefixtures("int8_engine")


def quantized(graph: Graph, data: np.ndarray, exclude: Sequence[str] = ()) -> tuple[Fused, Plan, Graph]:
    fused = fuse(graph, data.shape[1:])
    targets = calibration_targets(fused.graph)
    ranges = collect_ranges(float_graph(fused.graph), targets, [data], len(data), "minmax")
    table = CalibrationTable("minmax", len(data), "random", ranges, "0" * 64, "0" * 64)
    plan = make_plan(fused, table, exclude)
    return fused, plan, int8_graph(fused.graph, plan)


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
    given, wanted = (
        activation_params(plan.activations[t].range, plan.activations[t].dtype) for t in (DATA, Tensor("relu"))
    )
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
    assert float(node.attrs["max_calib_range"]) == pytest.approx(2 * plan.activations[Tensor("relu2")].range.high)
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
    assert plan.activations[Tensor("relu")].dtype == "uint8"
    assert plan.activations[Tensor("add")].dtype == "int8"
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
    graph = graph.with_params({**graph.params, "conv_weight": weight, "conv_bias": np.full(8, 0.7, np.float32)})
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
    graph = graph.with_params({**graph.params, "dense_weight": weight})
    data = images()
    bias = graph.params["dense_bias"]
    expected, found = (run(form, {"data": data})[0] - bias for form in (graph, quantized(graph, data)[2]))
    for channel in range(10):
        assert cosine(expected[:, channel], found[:, channel]) > 0.999


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
    from quantkit.emission.mxnet_int8 import _calibrated
    from quantkit.quantization.plan import Activation

    attrs = _calibrated(Activation(Range(-1e-9, 1.23456789e-9), "int8"))
    assert float(attrs["max_calib_range"]) == pytest.approx(1.23456789e-9, rel=1e-7)
    assert attrs["min_calib_range"] == "-" + attrs["max_calib_range"]
