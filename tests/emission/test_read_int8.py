"""INT8 networks read back: what is emitted again computes the same to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from quantkit.emission.mxnet_int8 import int8_graph
from quantkit.emission.read_int8 import read_int8, stored_integers
from quantkit.engine.execute import run
from quantkit.errors import ModelError
from quantkit.graph import nnvm
from quantkit.graph.graph import Graph, Node, Tensor
from quantkit.quantization.arithmetic import dequantize
from quantkit.quantization.plan import Plan
from quantkit.recovery.preset import PRESETS
from quantkit.recovery.recover import recover
from tests.networks import DATA, Builder, images, inverted_residual, residual_v1, residual_v2
from tests.recovery.networks import planned, silent


def signed_sum() -> Graph:
    """A signed sum adds an unsigned tensor, which exists in both types."""
    b = Builder()
    stem = b.relu("relu", b.conv("conv0", DATA, 3, 8))
    return b.graph(b.conv("last", b.op("elemwise_add", "add", b.conv("conv1", stem, 8, 8), stem), 8, 8), stem)


def branches() -> Graph:
    """Concatenation of both types, pooling, flattening, two dense layers, one of them clipped."""
    b = Builder()
    left, right = b.relu("left", b.conv("conv0", DATA, 3, 8)), b.conv("conv1", DATA, 3, 8, bias=False)
    both = b.op("Concat", "concat", left, right, dim=1, num_args=2)
    pooled = b.op("Pooling", "pool", both, global_pool=True, pool_type="max")
    hidden = b.op(
        "clip", "hidden_clip", b.dense("hidden", b.op("Flatten", "flatten", pooled), 16, 12), a_min=0, a_max=1
    )
    return b.graph(b.dense("dense", hidden, 12, 10))


def addition() -> Graph:
    b = Builder()
    first, second = b.relu("first", b.conv("conv0", DATA, 3, 8)), b.conv("second", DATA, 3, 8)
    return b.graph(
        b.conv("last", b.op("broadcast_add", "add", b.op("Pooling", "pool", first, kernel=(1, 1)), second), 8, 8)
    )


def dead_channels() -> Graph:
    graph = residual_v1()
    weight = graph.params["conv1_weight"].copy()
    weight[3], weight[5] = 0.0, weight[5] * np.float32(1e-25)
    return replace(graph, params={**graph.params, "conv1_weight": weight})


def two_readers_of_a_dense_layer() -> Graph:
    """The dense layer's activation is no part of it."""
    b = Builder()
    dense = b.dense("dense", b.relu("stem", b.conv("conv", DATA, 3, 4)), 1024, 10)
    return b.graph(b.relu("relu", dense), dense)


def parts_of_a_split() -> Graph:
    b = Builder()
    split = b.op("SliceChannel", "split", b.op("relu", "relu", b.conv("conv", DATA, 3, 8)), num_outputs=2, axis=1)
    return b.graph(b.conv("pointwise", Tensor(split.node, 1), 4, 4, kernel=1), split)


def pointwise() -> Graph:
    """A depthwise 1x1 convolution of unsigned input, as a batch normalization after a ReLU makes one."""
    b = Builder()
    stem = b.relu("relu", b.conv("conv", DATA, 3, 8))
    return b.graph(b.relu("last", b.conv("pointwise", stem, 8, 8, kernel=1, groups=8)))


def row_after_a_dense_layer() -> Graph:
    """A dense layer without bias, and an addition of the user's that looks like one."""
    b = Builder()
    row = b.param("row", b.random.normal(size=(1, 10)))
    weight = b.param("weight", b.random.normal(size=(10, 768)))
    dense = b.op("FullyConnected", "dense", DATA, weight, num_hidden=10, no_bias=True)
    return b.graph(b.op("broadcast_add", "add", dense, row))


def centre_only() -> Graph:
    """A 3x3 depthwise convolution of signed input that is zero around its centre by itself."""
    b = Builder()
    graph = b.graph(b.conv("conv", DATA, 3, 3, groups=3))
    weight = graph.params["conv_weight"] * np.pad(np.ones((1, 1), np.float32), 1)
    return replace(graph, params={**graph.params, "conv_weight": weight})


def addend_first() -> Graph:
    """A tensor that is quantized as a signed addend first, and as unsigned input later."""
    b = Builder()
    stem = b.relu("relu", b.conv("conv0", DATA, 3, 8))
    total = b.op("elemwise_add", "add", b.conv("conv1", DATA, 3, 8), stem)
    return b.graph(b.conv("last", stem, 8, 8), b.conv("other", total, 8, 8))


NETWORKS: dict[str, Callable[[], Graph]] = {
    "v1": residual_v1,
    "signed shortcut": lambda: residual_v1(signed_shortcut=True),
    "v2": residual_v2,
    "inverted residual": inverted_residual,
    "signed sum": signed_sum,
    "branches": branches,
    "addition": addition,
    "dead channels": dead_channels,
    "two readers": two_readers_of_a_dense_layer,
    "split": parts_of_a_split,
    "pointwise": pointwise,
    "row after dense": row_after_a_dense_layer,
    "centre only": centre_only,
    "addend first": addend_first,
}


def emitted(name: str, preset: str = "none", *exclude: str) -> tuple[Graph, Plan, Graph]:
    """The fused network, the plan and the INT8 network as it comes out of a file."""
    data = images()
    fused, plan = planned(NETWORKS[name](), data, *exclude)
    found = recover(fused, plan, [data], "minmax", PRESETS[preset], silent)
    graph = int8_graph(found.graph, found.plan)
    return found.graph, found.plan, nnvm.parse(nnvm.serialize(graph), graph.params)


def check_same(int8: Graph) -> None:
    """What is read back and emitted again computes the same, by operators of the same kinds."""
    again = int8_graph(*read_int8(int8))
    assert [node.op for node in again.nodes] == [node.op for node in int8.nodes]
    assert [dict(node.attrs) for node in again.nodes] == [dict(node.attrs) for node in int8.nodes]
    bodies = [
        [[(inner.op, dict(inner.attrs)) for inner in node.body.nodes] for node in graph.nodes if node.body]
        for graph in (again, int8)
    ]
    assert bodies[0] == bodies[1]
    assert again.outputs == int8.outputs
    for expected, found in zip(run(int8, {"data": images(seed=5)}), run(again, {"data": images(seed=5)})):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("int8_engine")
@pytest.mark.parametrize("preset", ["none", "balanced"])
@pytest.mark.parametrize("name", NETWORKS)
def test_it_is_the_same_network_to_the_last_bit(name: str, preset: str) -> None:
    check_same(emitted(name, preset)[2])


@pytest.mark.usefixtures("int8_engine")
def test_layers_in_fp32_stay_there() -> None:
    graph, _, int8 = emitted("v1", "none", "conv1", "dense")
    check_same(int8)
    read, plan = read_int8(int8)
    assert {name for name, each in plan.decisions.items() if each.precision == "fp32"} >= {"relu1", "dense"}
    assert read.by_name["relu1"].op == graph.by_name["relu1"].op


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", NETWORKS)
def test_names_types_and_ranges_come_back(name: str) -> None:
    graph, plan, int8 = emitted(name)
    read, found = read_int8(int8)
    assert [node.name for node in read.nodes] == [node.name for node in graph.nodes]
    assert read.outputs == graph.outputs
    precisions = {each.node: each.precision for each in plan.decisions.values()}
    assert {each.node: each.precision for each in found.decisions.values()} == precisions
    assert found.activations.keys() == plan.activations.keys()
    for tensor, form in found.activations.items():
        assert form.dtype == plan.activations[tensor].dtype
        assert form.range.largest == pytest.approx(plan.activations[tensor].range.largest, rel=1e-7)


@pytest.mark.usefixtures("int8_engine")
@pytest.mark.parametrize("name", NETWORKS)
def test_stored_integers_mean_what_the_engine_dequantizes_them_to(name: str) -> None:
    _, plan, int8 = emitted(name)
    stored = stored_integers(int8)
    assert stored.keys() == plan.activations.keys()
    for tensor, each in stored.items():
        triple = tuple(Tensor(each.tensor.node, index) for index in range(3))
        again = Node("again", "_contrib_dequantize", triple)
        outputs = (each.tensor, again.output)
        found, expected = run(replace(int8, nodes=(*int8.nodes, again), outputs=outputs), {"data": images(seed=5)})
        assert found.dtype == each.params.dtype == plan.activations[tensor].dtype, tensor
        np.testing.assert_allclose(dequantize(found, each.params), expected, rtol=1e-6)


@pytest.mark.usefixtures("int8_engine")
def test_a_tensor_in_both_types_is_unsigned() -> None:
    _, plan, int8 = emitted("addend first", "none", "conv0")
    types = [node.attrs["out_type"] for node in int8.nodes if node.inputs[0] == Tensor("relu")]
    assert types == ["int8", "uint8"]
    assert plan.activations[Tensor("relu")].dtype == "uint8"
    assert read_int8(int8)[1].activations[Tensor("relu")].dtype == "uint8"
    check_same(int8)


@pytest.mark.usefixtures("engine")
def test_dense_weights_are_what_their_integers_stand_for() -> None:
    graph, _, int8 = emitted("v1")
    read, _ = read_int8(int8)
    weight, found = graph.params["dense_weight"], read.params[read.by_name["dense"].inputs[1].node]
    steps = np.abs(weight).max(axis=1) / 127
    assert np.abs(found - weight).max() > 0
    assert (np.abs(found - weight) <= 0.5001 * steps[:, None]).all()
    np.testing.assert_array_equal(read.params[read.by_name["dense"].inputs[2].node], graph.params["dense_bias"])


@pytest.mark.usefixtures("engine")
def test_a_widened_convolution_is_narrow_again() -> None:
    graph, _, int8 = emitted("pointwise")
    assert int8.params["last_wide_weight"].shape == (8, 1, 3, 3)
    read, _ = read_int8(int8)
    found, wanted = (each.params[each.by_name["last"].inputs[1].node] for each in (read, graph))
    np.testing.assert_array_equal(found, wanted)


def damaged(op: str, **attrs: str) -> Graph:
    """The residual network with another attribute in its nodes of a type."""
    _, _, int8 = emitted("v1")
    nodes = (replace(node, attrs={**node.attrs, **attrs}) if node.op == op else node for node in int8.nodes)
    return replace(int8, nodes=tuple(nodes))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("op", "attrs", "message"),
    [
        ("_sg_mkldnn_fully_connected", {"enable_float_output": "false"}, "does not put out floats"),
        ("_contrib_quantize_v2", {"out_type": "int4"}, "of type 'int4'"),
        ("_sg_mkldnn_conv", {"with_sum": "true"}, "has 5 inputs"),
    ],
)
def test_what_is_not_ours_is_refused_by_name(op: str, attrs: dict[str, str], message: str) -> None:
    graph = damaged(op, **attrs)
    names = [node.name for node in graph.nodes if node.op == op]
    with pytest.raises(ModelError, match=message) as error:
        read_int8(graph)
    assert any(repr(name) in str(error.value) for name in names)


@pytest.mark.usefixtures("engine")
def test_an_unknown_integer_operator_is_refused() -> None:
    _, _, int8 = emitted("v1")
    nodes = (replace(node, op="_contrib_quantized_batch_norm") if "conv" in node.op else node for node in int8.nodes)
    with pytest.raises(ModelError, match="no such operator"):
        read_int8(replace(int8, nodes=tuple(nodes)))
