"""What is emitted, node by node: inputs in the order of the engine's kernels, flags, names, and whose work it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from quantkit.calibration.ranges import Range
from quantkit.emission.mxnet_int8 import int8_graph
from quantkit.emission.read_int8 import read_int8, stored_integers
from quantkit.errors import ModelError
from quantkit.fusion.fuse import Fused
from quantkit.graph.graph import Graph, Node, Tensor
from quantkit.quantization.plan import Plan
from tests.emission.test_read_int8 import NETWORKS, addend_first, branches, pointwise
from tests.networks import DATA, Builder, images, residual_v1
from tests.recovery.networks import planned

pytestmark = pytest.mark.usefixtures("engine")

BOUNDS = ("min_calib_range", "max_calib_range")


def emitted(graph: Graph, *exclude: str) -> tuple[Fused, Plan, Graph]:
    fused, plan = planned(graph, images(), *exclude)
    return fused, plan, int8_graph(fused.graph, plan)


def line(node: Node) -> str:
    """A node in words, without its range; parts of a fused operator in brackets."""
    told = [name if value == "true" else f"{name}={value}" for name, value in node.attrs.items() if name not in BOUNDS]
    body = [f"[{inner.op}({', '.join(map(str, inner.inputs))})]" for inner in (node.body.nodes if node.body else ())]
    inputs = ", ".join(map(str, node.inputs))
    return " ".join([f"{node.name} = {node.op}({inputs})", *body, *told, "of", *node.origin])


def lines(text: str) -> list[str]:
    return [each.strip() for each in text.strip().splitlines()]


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
flatten_uint8 = _contrib_quantize_v2(flatten) out_type=uint8 of flatten
quantized_dense = _sg_mkldnn_fully_connected(flatten_uint8, dense_weight_int8, flatten_uint8[1], flatten_uint8[2], \
dense_weight_low, dense_weight_high) [FullyConnected(data, weight)] quantized enable_float_output of dense
dense_scaled = broadcast_mul(quantized_dense, dense_weight_scale) of dense
dense = broadcast_add(dense_scaled, dense_bias_row) of dense
"""

BRANCHES = """
data_int8 = _contrib_quantize_v2(data) out_type=int8 of
quantized_left = _sg_mkldnn_conv(data_int8, conv0_weight, conv0_bias, data_int8[1], data_int8[2]) \
[Convolution(data, weight, bias)] [Activation(conv0)] with_act quantized of conv0 left
quantized_conv1 = _sg_mkldnn_conv(data_int8, conv1_weight, data_int8[1], data_int8[2]) \
[Convolution(data, weight)] quantized of conv1
quantized_concat = _contrib_quantized_concat(quantized_left, quantized_conv1, quantized_left[1], quantized_left[2], \
quantized_conv1[1], quantized_conv1[2]) dim=1 num_args=2 of concat
quantized_pool = _contrib_quantized_pooling(quantized_concat, quantized_concat[1], quantized_concat[2]) \
kernel=(1, 1) global_pool=True pool_type=max of pool
quantized_flatten = _contrib_quantized_flatten(quantized_pool, quantized_pool[1], quantized_pool[2]) of flatten
quantized_hidden_clip = _sg_mkldnn_fully_connected(quantized_flatten, hidden_clip_weight_int8, quantized_flatten[1], \
quantized_flatten[2], hidden_clip_weight_low, hidden_clip_weight_high) [FullyConnected(data, weight)] quantized \
enable_float_output of hidden hidden_clip
hidden_clip_scaled = broadcast_mul(quantized_hidden_clip, hidden_clip_weight_scale) of hidden hidden_clip
hidden_clip_biased = broadcast_add(hidden_clip_scaled, hidden_clip_bias_row) of hidden hidden_clip
hidden_clip = clip(hidden_clip_biased) a_min=0 a_max=1 of hidden hidden_clip
hidden_clip_uint8 = _contrib_quantize_v2(hidden_clip) out_type=uint8 of hidden hidden_clip
quantized_dense = _sg_mkldnn_fully_connected(hidden_clip_uint8, dense_weight_int8, hidden_clip_uint8[1], \
hidden_clip_uint8[2], dense_weight_low, dense_weight_high) [FullyConnected(data, weight)] quantized \
enable_float_output of dense
dense_scaled = broadcast_mul(quantized_dense, dense_weight_scale) of dense
dense = broadcast_add(dense_scaled, dense_bias_row) of dense
"""

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
    assert [line(node) for node in emitted(build())[2].nodes] == lines(text)


def test_a_tensor_in_both_types_is_quantized_twice() -> None:
    nodes = emitted(addend_first(), "conv0")[2].by_name
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
    int8 = emitted(NETWORKS["row after dense"]())[2]
    assert [node.name for node in int8.nodes] == ["data_int8", "quantized_dense", "dense", "add"]
    assert int8.by_name["dense"].op == "broadcast_mul"


def test_parts_of_a_split_have_names_of_their_own() -> None:
    int8 = emitted(NETWORKS["split"]())[2]
    assert [node.name for node in int8.nodes if node.op == "_contrib_quantize_v2"][-1] == "split_1_uint8"
    assert int8.by_name["split_1_uint8"].inputs == (Tensor("split", 1),)


def test_names_that_are_taken_get_a_number() -> None:
    b = Builder()
    stem = b.relu("quantized_last", b.conv("conv", DATA, 3, 8))
    last = b.conv("last", b.op("tanh", "quantized_last_1", stem), 8, 8)
    int8 = emitted(b.graph(last, b.op("tanh", "data_int8", DATA)))[2]
    names = [node.name for node in int8.nodes]
    assert len(set(names)) == len(names)
    assert {"quantized_quantized_last", "quantized_last_2", "data_int8_1"} <= set(names)


@pytest.mark.parametrize("name", NETWORKS)
def test_ranges_are_those_of_the_plan(name: str) -> None:
    """Symmetric where there are negative values; of an unsigned sum in the place of a signed addend twice as wide."""
    _, plan, int8 = emitted(NETWORKS[name]())
    seen = 0
    for node in int8.nodes:
        if BOUNDS[0] not in node.attrs:
            continue
        tensor = node.inputs[0] if node.op == "_contrib_quantize_v2" else Tensor(node.name.removeprefix("quantized_"))
        form = plan.activations[tensor]
        dtype = node.attrs.get("out_type", form.dtype)
        halved = name == "signed shortcut" and tensor == Tensor("relu2")
        peak = float(np.float32(form.range.largest * (2 if halved else 1)))
        assert [float(node.attrs[bound]) for bound in BOUNDS] == [-peak if dtype == "int8" else 0, peak]
        seen += 1
    assert seen


def test_the_range_before_a_sum_is_a_note_at_the_layer() -> None:
    fused, plan = planned(residual_v1(), images())
    complete = replace(plan, before_sums={Tensor("relu2"): Range(-1.25, 3.5)})
    noted = [node for node in int8_graph(fused.graph, complete).nodes if any("before_sum" in key for key in node.attrs)]
    assert [(node.name, node.attrs["__quantkit_range_before_sum__"]) for node in noted] == [
        ("quantized_relu2", "(-1.25, 3.5)")
    ]


def test_dense_parameters_are_stored_as_integers_rows_and_a_step_of_1() -> None:
    fused, _, int8 = emitted(residual_v1())
    weight = fused.graph.params["dense_weight"].astype(np.float64)
    scale = np.abs(weight).max(axis=1) / 127
    stored = int8.params["dense_weight_int8"]
    assert stored.dtype == np.int8
    assert np.abs(stored - weight / scale[:, None]).max() < 0.5001
    np.testing.assert_allclose(int8.params["dense_weight_scale"], scale[None], rtol=1e-6)
    np.testing.assert_array_equal(int8.params["dense_bias_row"], fused.graph.params["dense_bias"][None])
    assert (int8.params["dense_weight_low"].item(), int8.params["dense_weight_high"].item()) == (-127.5, 127.5)
    assert "dense_weight" not in int8.params


@pytest.mark.parametrize("pad", [(0, 0), (1, 2)])
def test_a_widened_layer_pads_one_more_on_each_side(pad: tuple[int, int]) -> None:
    b = Builder()
    stem = b.relu("relu", b.conv("conv", DATA, 3, 8))
    weight, bias = (b.param(name, b.random.uniform(0.5, 1, shape)) for name, shape in (("w", (8, 1, 1, 1)), ("b", 8)))
    attrs = {"kernel": (1, 1), "pad": pad, "num_filter": 8, "num_group": 8}
    graph = b.graph(b.op("Convolution", "pointwise", stem, weight, bias, **attrs))
    _, _, int8 = emitted(graph)
    node = int8.by_name["quantized_pointwise"]
    assert node.body is not None
    core = node.body.nodes[0].attrs
    assert (core["kernel"], core["pad"]) == ("(3, 3)", f"({pad[0] + 1}, {pad[1] + 1})")
    wide = int8.params["pointwise_wide_weight"]
    np.testing.assert_array_equal(wide[:, :, 1, 1], graph.params["w"][:, :, 0, 0])
    assert wide.shape == (8, 1, 3, 3)
    assert np.count_nonzero(wide) == 8
    # And back.
    read = read_int8(int8)[0]
    core = read.by_name["pointwise"].attrs
    assert (core["kernel"], core["pad"]) == ("(1, 1)", str(pad))
    np.testing.assert_array_equal(read.params[read.by_name["pointwise"].inputs[1].node], graph.params["w"])


@pytest.mark.parametrize("name", NETWORKS)
def test_who_did_what_comes_back(name: str) -> None:
    fused, plan, int8 = emitted(NETWORKS[name]())
    read, found = read_int8(int8)
    assert [node.origin for node in read.nodes] == [node.origin for node in fused.graph.nodes]
    for node in read.nodes:
        decision = found.decisions[node.name]
        assert (decision.node, decision.origin) == (node.name, node.origin)
        # A clip that saturation does comes back as a ReLU.
        assert decision.operator.removesuffix("6") == plan.decisions[node.name].operator.removesuffix("6")
        assert decision.reason == ("" if decision.precision == "int8" else "it runs in FP32 in the INT8 network")


@pytest.mark.parametrize("name", NETWORKS)
def test_stored_integers_are_found_where_they_are(name: str) -> None:
    _, plan, int8 = emitted(NETWORKS[name]())
    stored = stored_integers(int8)
    assert stored.keys() == plan.activations.keys()
    for tensor, each in stored.items():
        form = plan.activations[tensor]
        assert each.params.dtype == form.dtype
        assert each.tensor.index == 0
        names = (
            f"quantized_{tensor.node}",
            f"{tensor.node}_{form.dtype}",
            f"{tensor.node}_{tensor.index}_{form.dtype}",
        )
        assert each.tensor.node in names


def changed(graph: Graph, name: str, **fields: Any) -> Graph:
    """The network with other fields of one node."""
    nodes = tuple(replace(node, **fields) if node.name == name else node for node in graph.nodes)
    return replace(graph, nodes=nodes)


def without(graph: Graph, name: str, attr: str, **attrs: str) -> Graph:
    kept = {key: value for key, value in graph.by_name[name].attrs.items() if key != attr}
    return changed(graph, name, attrs={**kept, **attrs})


def with_param(graph: Graph, name: str, value: float) -> Graph:
    return replace(graph, params={**graph.params, name: np.full_like(graph.params[name], value)})


def inside(graph: Graph, name: str, **fields: Any) -> Graph:
    """The network with other fields of the first operator inside of a layer."""
    body = graph.by_name[name].body
    assert body is not None
    first, *rest = body.nodes
    return changed(graph, name, body=replace(body, nodes=(replace(first, **fields), *rest)))


def reading(graph: Graph, name: str, position: int, tensor: str) -> Graph:
    inputs = list(graph.by_name[name].inputs)
    inputs[position] = Tensor(tensor)
    return changed(graph, name, inputs=tuple(inputs))


FOREIGN: dict[str, tuple[Callable[[Graph], Graph], str, str]] = {
    "range missing": (lambda g: without(g, "data_int8", "max_calib_range"), "data_int8", "it has no calibrated range"),
    "type missing": (lambda g: without(g, "data_int8", "out_type"), "data_int8", "its integers are of type ''"),
    "range in words": (
        lambda g: without(g, "quantized_relu2", "", __quantkit_range_before_sum__="(0, much)"),
        "quantized_relu2", "__quantkit_range_before_sum__='(0, much)' is no range",
    ),
    "range of three": (
        lambda g: without(g, "quantized_relu2", "", __quantkit_range_before_sum__="(0, 1, 2)"),
        "quantized_relu2", "__quantkit_range_before_sum__='(0, 1, 2)' is no range",
    ),
    "something else inside": (
        lambda g: inside(g, "quantized_relu0", op="tanh"),
        "quantized_relu0", "there is no convolution or dense layer inside",
    ),
    "nothing inside": (
        lambda g: changed(g, "quantized_relu0", body=None),
        "quantized_relu0", "there is no convolution or dense layer inside",
    ),
    "sum forgotten": (
        lambda g: changed(without(g, "quantized_relu2", "with_sum"), "quantized_relu2",
                          inputs=g.by_name["quantized_relu2"].inputs[:5]),
        "quantized_relu2", "its flags and what is inside of it differ",
    ),
    "computed weights": (
        lambda g: reading(g, "quantized_relu1", 1, "quantized_relu0"),
        "quantized_relu1", "its weights are no parameter",
    ),
    "step of a dense layer": (
        lambda g: with_param(g, "dense_weight_high", 127.0), "quantized_dense", "one step of its weights is not 1"
    ),
    "other step of a dense layer": (
        lambda g: with_param(g, "dense_weight_low", -128.0), "quantized_dense", "one step of its weights is not 1"
    ),
    "computed dense weights": (
        lambda g: reading(g, "quantized_dense", 1, "flatten"), "quantized_dense", "one step of its weights is not 1"
    ),
    "computed step": (
        lambda g: reading(g, "quantized_dense", 5, "flatten"), "quantized_dense", "one step of its weights is not 1"
    ),
    "more inputs of a dense layer": (
        lambda g: changed(g, "quantized_dense", inputs=(*g.by_name["quantized_dense"].inputs, Tensor("flatten"))),
        "quantized_dense", "it does not put out floats",
    ),
    "no scale": (
        lambda g: changed(g, "dense_scaled", op="broadcast_sub"),
        "quantized_dense", "no scale for each channel follows it",
    ),
    "computed scale": (
        lambda g: reading(g, "dense_scaled", 1, "flatten"),
        "dense_scaled", "what it takes for each channel is no parameter",
    ),
    "scale of three": (
        lambda g: changed(g, "dense_scaled", inputs=(*g.by_name["dense_scaled"].inputs, Tensor("dense_bias_row"))),
        "dense_scaled", "what it takes for each channel is no parameter",
    ),
    "real numbers": (
        lambda g: reading(g, "quantized_relu0", 0, "data"), "quantized_relu0", "'data' comes to it in no integer form"
    ),
    "real numbers in a dense layer": (
        lambda g: reading(g, "quantized_dense", 0, "flatten"),
        "quantized_dense", "'flatten' comes to it in no integer form",
    ),
    "real numbers added": (
        lambda g: reading(g, "quantized_relu2", 3, "data"), "quantized_relu2", "'data' comes to it in no integer form"
    ),
    "engine's own": (
        lambda g: changed(g, "quantized_relu1", op="_sg_mkldnn_selfatt_qk"),
        "quantized_relu1", "quantkit emits no such operator",
    ),
    "engine's own integers": (
        lambda g: changed(g, "quantized_relu1", op="_contrib_quantized_act"),
        "quantized_relu1", "quantkit emits no such operator",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FOREIGN)
def test_what_quantkit_does_not_emit_is_refused(case: str) -> None:
    change, name, told = FOREIGN[case]
    graph = change(emitted(residual_v1(True))[2])
    with pytest.raises(ModelError) as caught:
        read_int8(graph)
    assert str(caught.value) == (
        f"node {name!r} ({graph.by_name[name].op}) cannot be read back: {told}; "
        "give an INT8 network that quantkit emitted"
    )
