"""Fused layers as values, and in their FP32 form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet import capabilities
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import fuse
from quantkit.ir.fused_layer import FusedLayer, fused_layer_of, with_core_attrs, with_relu_only
from quantkit.ir.graph import Graph
from tests.lowering.test_lowered_form import line
from tests.networks import DATA, Builder, inverted_residual, residual_v1

pytestmark = pytest.mark.usefixtures("engine")


def layers(graph: Graph) -> list[FusedLayer]:
    return [fused_layer for node in fuse(graph, (3, 16, 16)).graph.nodes if (fused_layer := fused_layer_of(node))]


def fused_layers() -> list[FusedLayer]:
    return [
        fused_layer
        for graph in (inverted_residual(), residual_v1())
        for fused_layer in layers(graph)
        if fused_layer.node.body
    ]


def test_a_clip_becomes_plain_relu_and_the_rest_stays() -> None:
    kinds = []
    for fused_layer in layers(inverted_residual()):
        found = with_relu_only(fused_layer)
        kinds.append((fused_layer.activation_kind, found.activation_kind))
        if fused_layer.activation_kind != "relu6":
            assert found is fused_layer
            continue
        assert fused_layer.node.body is not None
        assert fused_layer.activation is not None
        relu = replace(fused_layer.activation, op="Activation", attrs={"act_type": "relu"})
        body = replace(fused_layer.node.body, nodes=(*fused_layer.node.body.nodes[:-1], relu))
        # What the node says, and what the layer says.
        assert (
            found == FusedLayer(found.node, fused_layer.core, fused_layer.addition, relu) == fused_layer_of(found.node)
        )
        assert found.node.body is not None
        assert found.node.body.nodes == body.nodes
        assert replace(found.node, body=None) == replace(fused_layer.node, body=None)
    assert set(kinds) == {("relu6", "relu"), (None, None)}


def test_another_parameter_of_a_fused_layer_is_in_the_unit_and_in_the_node() -> None:
    for fused_layer in fused_layers():
        found = with_core_attrs(fused_layer, {"pad": "(2, 2)"})
        assert found.core == replace(fused_layer.core, attrs={**fused_layer.core.attrs, "pad": "(2, 2)"})
        assert found == fused_layer_of(found.node)
        assert (found.addition, found.activation) == (fused_layer.addition, fused_layer.activation)


def fp32(graph: Graph) -> list[str]:
    return [line(node) for node in float_graph(graph).nodes]


def test_a_dense_layer_in_fp32_says_that_it_has_a_relu() -> None:
    b = Builder()
    graph = fuse(b.graph(b.relu("relu", b.dense("dense", DATA, 768, 10))), (3, 16, 16)).graph
    assert fp32(graph) == [
        "relu = _sg_mkldnn_fully_connected(data, dense_weight, dense_bias) "
        "[FullyConnected(data, weight, bias)] [Activation(dense)] with_relu of dense relu"
    ]


@pytest.mark.parametrize(
    ("kernel", "form"),
    [
        ("(3, 3)", "_sg_mkldnn_conv(data, w) [Convolution(data, weight)]"),
        ("(1, 3, 3)", "Convolution(data, w) kernel=(1, 3, 3) no_bias=True"),
    ],
)
def test_convolutions_are_fused_layers_in_fp32_where_every_release_has_a_kernel(
    kernel: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is installed, so that bundles are read alike everywhere."""
    monkeypatch.setattr(capabilities, "load_mxnet", None)
    b = Builder()
    graph = b.graph(b.op("Convolution", "conv", DATA, b.param("w", np.ones(1)), kernel=kernel, no_bias=True))
    assert fp32(graph) == [f"conv = {form} of conv"]


@pytest.mark.parametrize("kernel", ["(3,)", "(3)", "3", "[3L]"])
def test_convolutions_in_one_dimension_stay_what_they_are(kernel: str) -> None:
    b = Builder()
    graph = b.graph(b.op("Convolution", "conv", DATA, b.param("w", np.ones(1)), kernel=kernel, no_bias=True))
    assert float_graph(graph).nodes == graph.nodes


@pytest.mark.parametrize("computed", ["weight", "bias"])
def test_layers_of_computed_parameters_stay_what_they_are(computed: str) -> None:
    """The engine's fused layers would keep the values of the first run."""
    b = Builder()
    params = {"weight": b.param("w", np.ones((8, 3, 3, 3))), "bias": b.param("b", np.ones(8))}
    inputs = {**params, computed: b.op("tanh", "computed", params[computed])}
    graph = b.graph(b.op("Convolution", "conv", DATA, *inputs.values(), kernel=(3, 3), num_filter=8))
    assert float_graph(graph).nodes == graph.nodes
