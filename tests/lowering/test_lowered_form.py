"""Lowered nodes: inputs in the order of the engine's kernels, flags, names and origins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.fusion.float_symbol import float_graph, fused_graph
from quantkit.fusion.fuse import Fused, fuse
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.lowering.mxnet_int8 import int8_graph, int8_symbol
from quantkit.quantization.arithmetic import dequantize
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.lowering.networks import NETWORKS, addend_first, branches, pointwise, quantized
from tests.networks import DATA, Builder, images, residual_v1
from tests.quantization.algorithms.networks import planned

pytestmark = pytest.mark.usefixtures("engine")

BOUNDS = ("min_calib_range", "max_calib_range")


def lowered(graph: Graph, *exclude: str) -> tuple[Fused, QuantizationPlan, Graph]:
    fused, plan = planned(graph, images(), *exclude)
    return fused, plan, int8_graph(QuantizedGraph(fused.graph, plan))


def line(node: Node) -> str:
    """A node in words, without its range; parts of a fused operator in brackets."""
    told = [name if value == "true" else f"{name}={value}" for name, value in node.attrs.items() if name not in BOUNDS]
    body = [f"[{inner.op}({', '.join(map(str, inner.inputs))})]" for inner in (node.body.nodes if node.body else ())]
    inputs = ", ".join(map(str, node.inputs))
    return " ".join([f"{node.name} = {node.op}({inputs})", *body, *told, "of", *node.origin])


def lines(text: str) -> list[str]:
    return [each.strip() for each in text.strip().splitlines()]


def dense_of(tensor: str, origin: str) -> str:
    """The lines of a last dense layer, which reads a tensor in FP32, and those of the tensor's integers."""
    return f"""\
{tensor}_uint8 = _contrib_quantize_v2({tensor}) out_type=uint8 of {origin}
quantized_dense = _sg_mkldnn_fully_connected({tensor}_uint8, dense_weight_int8, {tensor}_uint8[1], {tensor}_uint8[2], \
dense_weight_low, dense_weight_high) [FullyConnected(data, weight)] quantized enable_float_output of dense
dense_scaled = broadcast_mul(quantized_dense, dense_weight_scale) of dense
dense = broadcast_add(dense_scaled, dense_bias_row) of dense
"""


RESIDUAL = """
data_int8 = _contrib_quantize_v2(data) out_type=int8 of
quantized_relu0 = _sg_mkldnn_conv(data_int8, bn0_weight, bn0_bias, data_int8[1], data_int8[2]) \
[Convolution(data, weight, bias)] [Activation(bn0)] with_act quantized of conv0 bn0 relu0
quantized_relu1 = _sg_mkldnn_conv(quantized_relu0, bn1_weight, bn1_bias, quantized_relu0[1], quantized_relu0[2]) \
[Convolution(data, weight, bias)] [Activation(bn1)] with_act quantized of conv1 bn1 relu1
quantized_bn2 = _sg_mkldnn_conv(quantized_relu1, bn2_weight, bn2_bias, quantized_relu1[1], quantized_relu1[2]) \
[Convolution(data, weight, bias)] quantized of conv2 bn2
quantized_relu2 = _sg_mkldnn_conv(quantized_relu0, bn3_weight, bn3_bias, quantized_bn2, quantized_relu0[1], \
quantized_relu0[2], quantized_bn2[1], quantized_bn2[2]) [Convolution(data, weight, bias)] \
[elemwise_add(bn3, addend)] [Activation(add)] with_sum with_postsum_act quantized of conv3 bn3 add relu2
relu2 = _contrib_dequantize(quantized_relu2, quantized_relu2[1], quantized_relu2[2]) of conv3 bn3 add relu2
pool = Pooling(relu2) global_pool=True pool_type=avg kernel=(1, 1) of pool
flatten = Flatten(pool) of flatten
""" + dense_of("flatten", "flatten")

BRANCHES = """
data_int8 = _contrib_quantize_v2(data) out_type=int8 of
quantized_left = _sg_mkldnn_conv(data_int8, conv0_weight, conv0_bias, data_int8[1], data_int8[2]) \
[Convolution(data, weight, bias)] [Activation(conv0)] with_act quantized of conv0 left
quantized_conv1 = _sg_mkldnn_conv(data_int8, conv1_weight, data_int8[1], data_int8[2]) \
[Convolution(data, weight)] quantized of conv1
quantized_pool_part0 = _contrib_quantized_pooling(quantized_left, quantized_left[1], quantized_left[2]) \
kernel=(1, 1) global_pool=True pool_type=max of pool
quantized_pool_part1 = _contrib_quantized_pooling(quantized_conv1, quantized_conv1[1], quantized_conv1[2]) \
kernel=(1, 1) global_pool=True pool_type=max of pool
quantized_pool = _contrib_quantized_concat(quantized_pool_part0, quantized_pool_part1, quantized_pool_part0[1], \
quantized_pool_part0[2], quantized_pool_part1[1], quantized_pool_part1[2]) dim=1 num_args=2 of concat
quantized_flatten = _contrib_quantized_flatten(quantized_pool, quantized_pool[1], quantized_pool[2]) of flatten
quantized_hidden_clip = _sg_mkldnn_fully_connected(quantized_flatten, hidden_clip_weight_int8, quantized_flatten[1], \
quantized_flatten[2], hidden_clip_weight_low, hidden_clip_weight_high) [FullyConnected(data, weight)] quantized \
enable_float_output of hidden hidden_clip
hidden_clip_scaled = broadcast_mul(quantized_hidden_clip, hidden_clip_weight_scale) of hidden hidden_clip
hidden_clip_biased = broadcast_add(hidden_clip_scaled, hidden_clip_bias_row) of hidden hidden_clip
hidden_clip = clip(hidden_clip_biased) a_min=0 a_max=1 of hidden hidden_clip
""" + dense_of("hidden_clip", "hidden hidden_clip")

WIDENED = """
data_int8 = _contrib_quantize_v2(data) out_type=int8 of
quantized_relu = _sg_mkldnn_conv(data_int8, conv_weight, conv_bias, data_int8[1], data_int8[2]) \
[Convolution(data, weight, bias)] [Activation(conv)] with_act quantized of conv relu
quantized_last = _sg_mkldnn_conv(quantized_relu, last_wide_weight, pointwise_bias, quantized_relu[1], \
quantized_relu[2]) [Convolution(data, weight, bias)] [Activation(pointwise)] with_act quantized of pointwise last
last = _contrib_dequantize(quantized_last, quantized_last[1], quantized_last[2]) of pointwise last
"""

ADDED = """
data_int8 = _contrib_quantize_v2(data) out_type=int8 of
quantized_first = _sg_mkldnn_conv(data_int8, conv0_weight, conv0_bias, data_int8[1], data_int8[2]) \
[Convolution(data, weight, bias)] [Activation(conv0)] with_act quantized of conv0 first
quantized_second = _sg_mkldnn_conv(data_int8, conv1_weight, conv1_bias, data_int8[1], data_int8[2]) \
[Convolution(data, weight, bias)] [Activation(conv1)] with_act quantized of conv1 second
quantized_add = _contrib_quantized_elemwise_add(quantized_first, quantized_second, quantized_first[1], \
quantized_first[2], quantized_second[1], quantized_second[2]) of add
quantized_last = _sg_mkldnn_conv(quantized_add, last_weight, last_bias, quantized_add[1], quantized_add[2]) \
[Convolution(data, weight, bias)] quantized of last
last = _contrib_dequantize(quantized_last, quantized_last[1], quantized_last[2]) of last
"""


def added() -> Graph:
    b = Builder()
    first, second = b.relu("first", b.conv("conv0", DATA, 3, 8)), b.relu("second", b.conv("conv1", DATA, 3, 8))
    return b.graph(b.conv("last", b.op("elemwise_add", "add", first, second), 8, 8))


@pytest.mark.parametrize(
    ("build", "text"),
    [(lambda: residual_v1(True), RESIDUAL), (branches, BRANCHES), (pointwise, WIDENED), (added, ADDED)],
    ids=["residual", "branches", "widened", "added"],
)
def test_nodes(build: Callable[[], Graph], text: str) -> None:
    assert [line(node) for node in lowered(build())[2].nodes] == lines(text)


def test_a_tensor_in_both_types_is_quantized_twice() -> None:
    nodes = lowered(addend_first(), "conv0")[2].by_name
    assert line(nodes["relu"]) == (
        "relu = _sg_mkldnn_conv(data, conv0_weight, conv0_bias) "
        "[Convolution(data, weight, bias)] [Activation(conv0)] with_act of conv0 relu"
    )
    for dtype in ("int8", "uint8"):
        assert (
            line(nodes[f"relu_{dtype}"]) == f"relu_{dtype} = _contrib_quantize_v2(relu) out_type={dtype} of conv0 relu"
        )
    assert nodes["quantized_add"].inputs[3] == Tensor("relu_int8")
    assert nodes["quantized_last"].inputs[0] == Tensor("relu_uint8")


def test_a_dense_layer_without_bias_ends_with_its_scales() -> None:
    int8 = lowered(NETWORKS["row after dense"]())[2]
    assert [node.name for node in int8.nodes] == ["data_int8", "quantized_dense", "dense", "add"]
    assert int8.by_name["dense"].op == "broadcast_mul"


def test_parts_of_a_split_have_names_of_their_own() -> None:
    int8 = lowered(NETWORKS["split"]())[2]
    assert [node.name for node in int8.nodes if node.op == "_contrib_quantize_v2"][-1] == "split_1_uint8"
    assert int8.by_name["split_1_uint8"].inputs == (Tensor("split", 1),)


def test_names_that_are_taken_get_a_number() -> None:
    b = Builder()
    stem = b.relu("quantized_last", b.conv("conv", DATA, 3, 8))
    last = b.conv("last", b.op("tanh", "quantized_last_1", stem), 8, 8)
    int8 = lowered(b.graph(last, b.op("tanh", "data_int8", DATA)))[2]
    names = [node.name for node in int8.nodes]
    assert len(set(names)) == len(names)
    assert {"quantized_quantized_last", "quantized_last_2", "data_int8_1"} <= set(names)


def test_lowered_names_give_way_to_each_other() -> None:
    """Integers of the tensor "dense_weight", and those of a dense layer's weight, which has another name."""
    b = Builder()
    data = b.op("tanh", "dense_weight", DATA)
    dense = b.op("FullyConnected", "dense", data, b.param("w", b.random.normal(size=(5, 768))), num_hidden=5, no_bias=1)
    int8 = lowered(b.graph(dense))[2]
    assert int8.by_name["quantized_dense"].inputs[:2] == (Tensor("dense_weight_int8_1"), Tensor("dense_weight_int8"))
    assert int8.params["dense_weight_int8"].shape == (5, 768)


@pytest.mark.parametrize("name", NETWORKS)
def test_ranges_are_those_of_the_plan(name: str) -> None:
    """Symmetric where there are negative values; of an unsigned sum in the place of a signed addend twice as wide."""
    _, plan, int8 = lowered(NETWORKS[name]())
    seen = 0
    for node in int8.nodes:
        if BOUNDS[0] not in node.attrs:
            continue
        tensor = node.inputs[0] if node.op == "_contrib_quantize_v2" else Tensor(node.name.removeprefix("quantized_"))
        form = plan.tensors[tensor]
        dtype = node.attrs.get("out_type", form.dtype)
        halved = name == "signed shortcut" and tensor == Tensor("relu2")
        peak = float(np.float32(form.range.largest * (2 if halved else 1)))
        assert [float(node.attrs[bound]) for bound in BOUNDS] == [-peak if dtype == "int8" else 0, peak]
        seen += 1
    assert seen


def test_dense_parameters_are_stored_as_integers_rows_and_a_step_of_1() -> None:
    fused, _, int8 = lowered(residual_v1())
    weight = fused.graph.params["dense_weight"].astype(np.float64)
    scale = np.abs(weight).max(axis=1) / 127
    stored = int8.params["dense_weight_int8"]
    assert stored.dtype == np.int8
    assert np.abs(stored - weight / scale[:, None]).max() < 0.5001
    np.testing.assert_allclose(int8.params["dense_weight_scale"], scale[None], rtol=1e-6)
    np.testing.assert_array_equal(int8.params["dense_bias_row"], fused.graph.params["dense_bias"][None])
    assert (int8.params["dense_weight_low"].item(), int8.params["dense_weight_high"].item()) == (-127.5, 127.5)
    assert "dense_weight" not in int8.params
    (core,) = int8.by_name["quantized_dense"].body.nodes  # type: ignore[union-attr]
    # As MXNet writes it.
    assert core.attrs == {"num_hidden": "10", "no_bias": "True"}


@pytest.mark.parametrize("pad", [(0, 0), (1, 2)])
def test_a_widened_layer_pads_one_more_on_each_side(pad: tuple[int, int]) -> None:
    b = Builder()
    stem = b.relu("relu", b.conv("conv", DATA, 3, 8))
    weight, bias = (b.param(name, b.random.uniform(0.5, 1, shape)) for name, shape in (("w", (8, 1, 1, 1)), ("b", 8)))
    attrs = {"kernel": (1, 1), "pad": pad, "num_filter": 8, "num_group": 8}
    graph = b.graph(b.op("Convolution", "pointwise", stem, weight, bias, **attrs))
    _, _, int8 = lowered(graph)
    node = int8.by_name["quantized_pointwise"]
    assert node.body is not None
    core = node.body.nodes[0].attrs
    assert (core["kernel"], core["pad"]) == ("(3, 3)", f"({pad[0] + 1}, {pad[1] + 1})")
    wide = int8.params["pointwise_wide_weight"]
    np.testing.assert_array_equal(wide[:, :, 1, 1], graph.params["w"][:, :, 0, 0])
    assert wide.shape == (8, 1, 3, 3)
    assert np.count_nonzero(wide) == 8


def test_a_layer_that_is_not_depthwise_is_not_widened() -> None:
    """One of two channels out of one, whose number of groups is left out."""
    b = Builder()
    stem = b.relu("relu", b.conv("conv", DATA, 3, 1))
    weight = b.param("w", np.ones((2, 1, 1, 1)))
    graph = b.graph(b.op("Convolution", "last", stem, weight, kernel=(1, 1), num_filter=2, no_bias=True))
    assert lowered(graph)[2].by_name["quantized_last"].inputs[1] == weight


@pytest.mark.parametrize("name", NETWORKS)
def test_stored_integers_are_found_where_they_are(name: str) -> None:
    fused, plan = planned(NETWORKS[name](), images())
    stored = int8_symbol(QuantizedGraph(fused.graph, plan)).integers
    assert stored.keys() == plan.tensors.keys()
    for tensor, each in stored.items():
        form = plan.tensors[tensor]
        assert each.form.dtype == form.dtype
        assert each.tensor.index == 0
        names = (
            f"quantized_{tensor.node}",
            f"{tensor.node}_{form.dtype}",
            f"{tensor.node}_{tensor.index}_{form.dtype}",
        )
        assert each.tensor.node in names


@pytest.mark.usefixtures("int8_engine")
@pytest.mark.parametrize("name", NETWORKS)
def test_stored_integers_mean_what_the_engine_dequantizes_them_to(name: str) -> None:
    symbol = int8_symbol(quantized(name))
    for tensor, each in symbol.integers.items():
        triple = tuple(Tensor(each.tensor.node, index) for index in range(3))
        again = Node("again", "_contrib_dequantize", triple)
        nodes, outputs = (*symbol.graph.nodes, again), (each.tensor, again.output)
        found, expected = run(replace(symbol.graph, nodes=nodes, outputs=outputs), {"data": images(seed=5)})
        assert found.dtype == each.form.dtype, tensor
        np.testing.assert_allclose(dequantize(found, each.form.params), expected, rtol=1e-6)


@pytest.mark.usefixtures("int8_engine")
def test_integers_that_are_pooled_keep_the_range_that_they_have_in_the_engine() -> None:
    """An unsigned sum in place of a signed addend spans twice what was planned, and so does what follows it."""
    graph = residual_v1(signed_shortcut=True)
    pooled = Node("pooled", "Pooling", (Tensor("relu2"),), {"kernel": "(2, 2)", "stride": "(2, 2)"})
    fused, plan = planned(replace(graph, nodes=(*graph.nodes, pooled), outputs=(pooled.output,)).pruned(), images())
    symbol = int8_symbol(QuantizedGraph(fused.graph, plan))
    forms = [symbol.integers[Tensor(name)].form for name in ("relu2", "pooled")]
    assert forms[0] == forms[1]
    assert forms[0].range.largest == np.float32(2 * plan.tensors[Tensor("relu2")].range.largest)
    values, integers = run(
        symbol.graph.with_outputs([pooled.output, symbol.integers[pooled.output].tensor]), {"data": images(seed=5)}
    )
    np.testing.assert_allclose(dequantize(integers, forms[1].params), values, rtol=1e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_fp32_form_is_the_fused_network_again(name: str) -> None:
    graph = fuse(NETWORKS[name](), (3, 16, 16)).graph
    found = fused_graph(float_graph(graph))
    assert [replace(node, body=None) for node in found.nodes] == [replace(node, body=None) for node in graph.nodes]
    bodies = [[(*node.body.nodes, *node.body.outputs) for node in each.nodes if node.body] for each in (found, graph)]
    assert bodies[0] == bodies[1]
    assert found.outputs == graph.outputs
