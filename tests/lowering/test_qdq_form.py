"""Networks with roundings, node by node: each tensor that has integers is rounded once, under its own name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantkit.formats.onnx.writing.conversion import name_of
from quantkit.formats.onnx.writing.model import onnx_model
from quantkit.ir.graph import Graph, Tensor
from quantkit.lowering.qdq import DEQUANTIZE, QdqNetwork
from quantkit.quantization.plan import QuantizationPlan
from tests.lowering.networks import NETWORKS
from tests.lowering.test_lowered_form import line
from tests.lowering.test_qdq import network
from tests.lowering.test_subsampling import downsampling
from tests.networks import DATA, Builder, images, inverted_residual, residual_v1
from tests.quantization.algorithms.networks import planned
from tests.requirements import package

onnx = package("onnx")
pytestmark = pytest.mark.usefixtures("engine")

SHAPES = {"data": (1, 3, 16, 16)}

# Lowering in INT8 gives dead channels other weights first.
BUILT = sorted(NETWORKS.keys() - {"dead channels"})


def made(graph: Graph, **options: Any) -> tuple[Graph, QuantizationPlan, QdqNetwork]:
    """The fused network, its plan, and the network with roundings."""
    fused, plan = planned(graph, images())
    return fused.graph, plan, network(fused.graph, plan, SHAPES, **options)


def rounding(name: str, data: str, last: str) -> list[str]:
    params = f"{name}_scale, {name}_zero_point"
    return [
        f"{name}_quantized = QuantizeLinear({data}, {params}) of",
        f"{last} = DequantizeLinear({name}_quantized, {params}) of",
    ]


def constants(*names: str) -> list[str]:
    parts = ("integers", "scale", "zero_points")
    return [
        f"{name}_dequantized = DequantizeLinear({', '.join(f'{name}_{part}' for part in parts)}) axis=0 of"
        for name in names
    ]


def convolution(name: str, data: str, origin: str, kernel: int = 3, last: str = "") -> list[str]:
    pad = kernel // 2
    return [
        *constants(f"{name}_weight", f"{name}_bias"),
        f"{last or name} = Convolution({data}, {name}_weight_dequantized, {name}_bias_dequantized) "
        f"kernel=({kernel}, {kernel}) pad=({pad}, {pad}) num_filter=16 num_group=1 no_bias=False of {origin}",
    ]


def relu(name: str, data: str) -> list[str]:
    return [
        f"{name}_unrounded = Activation({data}) act_type=relu of {name}",
        *rounding(name, f"{name}_unrounded", name),
    ]


def test_a_residual_block() -> None:
    assert [line(node) for node in made(residual_v1(True))[2].graph.nodes] == [
        *rounding("data", "data", "data_dequantized"),
        *convolution("bn0", "data_dequantized", "conv0 bn0"),
        *relu("relu0", "bn0"),
        *convolution("bn1", "relu0", "conv1 bn1"),
        *relu("relu1", "bn1"),
        *convolution("bn2", "relu1", "conv2 bn2", last="bn2_unrounded"),
        *rounding("bn2", "bn2_unrounded", "bn2"),
        *convolution("bn3", "relu0", "conv3 bn3", kernel=1),
        # A layer's result is rounded before the sum.
        *rounding("bn3", "bn3", "bn3_dequantized"),
        "add = elemwise_add(bn3_dequantized, bn2) of add",
        *relu("relu2", "add"),
        "pool = Pooling(relu2) global_pool=True pool_type=avg kernel=(1, 1) of pool",
        "flatten = Flatten(pool) of flatten",
        *rounding("flatten", "flatten", "flatten_dequantized"),
        *constants("dense_weight", "dense_bias"),
        "dense = FullyConnected(flatten_dequantized, dense_weight_dequantized, dense_bias_dequantized) num_hidden=10 "
        "of dense",
    ]


def test_a_dense_layer_reads_rows_of_integers() -> None:
    b = Builder()
    graph = b.graph(b.dense("dense", b.relu("relu", b.conv("conv", DATA, 3, 16)), 4096, 10))
    assert [line(node) for node in made(graph)[2].graph.nodes][8:] == [
        "dense_flat = Flatten(relu) of dense",
        *rounding("dense_flat", "dense_flat", "dense_flat_dequantized"),
        *constants("dense_weight", "dense_bias"),
        "dense = FullyConnected(dense_flat_dequantized, dense_weight_dequantized, dense_bias_dequantized) "
        "num_hidden=10 of dense",
    ]


def test_subsampling_is_of_integers() -> None:
    nodes = [line(node) for node in made(downsampling())[2].graph.nodes]
    first = nodes.index(
        "stem_subsampled_unrounded = Pooling(stem) kernel=(1, 1) stride=(2, 2) pool_type=max of conv stem"
    )
    assert nodes[first + 1 : first + 6] == [
        *rounding("stem_subsampled", "stem_subsampled_unrounded", "stem_subsampled"),
        *constants("narrow_weight", "narrow_bias"),
        "narrow = Convolution(stem_subsampled, narrow_weight_dequantized, narrow_bias_dequantized) kernel=(1, 1) "
        "stride=(1, 1) num_filter=8 of narrow",
    ]
    assert (
        "shortcut = Convolution(stem_subsampled, shortcut_weight_dequantized, shortcut_bias_dequantized) "
        "kernel=(1, 1) stride=(1, 1) num_filter=8 of shortcut"
    ) in nodes


def test_parts_of_a_split_are_rounded_apart() -> None:
    nodes = [line(node) for node in made(NETWORKS["split"]())[2].graph.nodes]
    assert set(rounding("split_1", "split[1]", "split_1_dequantized")) <= set(nodes)


def test_names_that_are_taken_get_a_number() -> None:
    b = Builder()
    stem = b.relu("data_quantized", b.op("tanh", "data_quantized_1", DATA))
    params = {name: b.param(name, np.ones((1, 3, 1, 1))) for name in ("data_scale", "data_scale_1")}
    scaled = b.op(
        "broadcast_mul", "scaled", b.op("broadcast_mul", "more", stem, params["data_scale"]), *list(params.values())[1:]
    )
    graph = made(b.graph(b.conv("conv", DATA, 3, 8), scaled))[2].graph
    (first,) = (node for node in graph.nodes if node.op == "QuantizeLinear" and node.inputs[0] == DATA)
    assert (first.name, first.inputs[1].node) == ("data_quantized_2", "data_scale_2")


def test_layers_that_share_weights_have_constants_of_their_own() -> None:
    """Their biases have the steps of their products."""
    b = Builder()
    data = b.conv("conv", DATA, 3, 3)
    weight, bias = Tensor("conv_weight"), Tensor("conv_bias")
    for name in ("second", "third"):
        attrs = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 3}
        data = b.op("Convolution", name, b.op("tanh", f"{name}_data", data), weight, bias, **attrs)
    nodes = made(b.graph(data))[2].graph.by_name
    layers = [node for node in nodes.values() if node.op == "Convolution"]
    assert len(layers) == 3
    for layer, suffix in zip(layers, ("", "_1", "_2")):
        assert [each.node for each in layer.inputs[1:]] == [
            f"conv_weight_dequantized{suffix}",
            f"conv_bias_dequantized{suffix}",
        ]
        assert [each.node for each in nodes[f"conv_bias_dequantized{suffix}"].inputs] == [
            f"conv_bias_{part}{suffix}" for part in ("integers", "scale", "zero_points")
        ]


def test_clips_of_convolutions_are_left_to_saturation() -> None:
    nodes = [line(node) for node in made(inverted_residual())[2].graph.nodes]
    assert "depthwise_clip_unrounded = Activation(depthwise_bn) act_type=relu of depthwise_clip" in nodes
    assert not any("clip(" in node for node in nodes)


@pytest.mark.parametrize("name", BUILT)
def test_shapes_are_those_that_onnx_infers(name: str) -> None:
    _, _, found = made(NETWORKS[name]())
    model = onnx.shape_inference.infer_shapes(onnx_model(found.graph, found.shapes), strict_mode=True, data_prop=True)
    inferred = {
        each.name: tuple(axis.dim_value or 1 for axis in each.type.tensor_type.shape.dim)
        for each in (*model.graph.value_info, *model.graph.input, *model.graph.output)
    }
    for node in found.graph.nodes:
        shape = inferred[name_of(node.output)]
        assert found.shapes[node.output][1:] == shape[1:], node.name
        assert len(shape) == len(found.shapes[node.output])
    for param, value in found.graph.params.items():
        assert found.shapes[Tensor(param)] == value.shape


@pytest.mark.parametrize("name", BUILT)
def test_stored_parameters_are_those_of_the_layers_in_steps(name: str) -> None:
    """Weights to half a step of their channel; biases in the steps of the products, with 32 bits."""
    fused, _, found = made(NETWORKS[name]())
    steps = {
        node.inputs[0].node.removesuffix("_integers"): node.inputs
        for node in found.graph.nodes
        if node.op == DEQUANTIZE
    }
    for param, (stored, scale, zero_points) in steps.items():
        if param not in fused.params:
            continue
        integers, step = found.graph.params[stored.node], found.graph.params[scale.node]
        assert step.dtype == np.float32
        assert step.shape == (len(integers),)
        assert not found.graph.params[zero_points.node].any()
        assert found.graph.params[zero_points.node].dtype == integers.dtype
        assert integers.dtype == (np.int32 if param.endswith("bias") else np.int8)
        means = integers * step.reshape(-1, *(1,) * (integers.ndim - 1)).astype(np.float64)
        off = np.abs(means - fused.params[param].reshape(integers.shape))
        # The largest weight of a channel lies half a step beyond 127.
        allowed = 0.51 * step.reshape(-1, *(1,) * (integers.ndim - 1))
        assert (off <= allowed).all(), param
