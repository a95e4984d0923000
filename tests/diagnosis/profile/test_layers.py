from __future__ import annotations

from typing import TYPE_CHECKING

from quantkit.diagnosis.profile.layers import Layer, layers_of
from quantkit.ir.graph import Graph, Node, Tensor

if TYPE_CHECKING:
    from quantkit.bundle.quantized_model import QuantizedModel


def chain(*nodes: tuple[str, str]) -> Graph:
    """Nodes, by name and operator, each of which reads the one before."""
    names = ["data", *(name for name, _ in nodes)]
    built = tuple(Node(name, op, (Tensor(before),)) for (name, op), before in zip(nodes, names))
    return Graph(built, ("data",), (Tensor(names[-1]),))


def test_lowered_operators_lead_back_to_layers_by_their_names() -> None:
    graph = chain(
        ("data_int8", "_contrib_quantize_v2"),
        ("quantized_relu0", "_sg_mkldnn_conv"),
        ("relu0", "_contrib_dequantize"),
        ("pool", "Pooling"),
        ("pool_uint8", "_contrib_quantize_v2"),
        ("quantized_dense_1", "_sg_mkldnn_fully_connected"),
        ("dense_scaled", "broadcast_mul"),
        ("dense", "broadcast_add"),
    )
    originals = {
        "relu0": [("norm0", "BatchNorm"), ("conv0", "Convolution"), ("relu0", "Activation")],
        "pool": [("pool", "Pooling")],
        "dense": [("flat", "Flatten"), ("dense", "FullyConnected")],
    }
    convolution = Layer("conv0", "Convolution", ("norm0", "conv0", "relu0"))
    dense = Layer("dense", "FullyConnected", ("flat", "dense"))
    assert layers_of(graph, originals) == {
        "data_int8": Layer("data", "quantize", ("data",)),
        "quantized_relu0": convolution,
        "relu0": Layer("conv0", "dequantize", convolution.originals),
        "pool": Layer("pool", "Pooling", ("pool",)),
        "pool_uint8": Layer("pool", "quantize", ("pool",)),
        "quantized_dense_1": dense,
        "dense_scaled": dense,
        "dense": dense,
    }


def test_a_sequence_that_is_quantized_is_a_conversion_of_what_it_comes_from() -> None:
    graph = chain(
        ("embedded", "Embedding"),
        ("embedded_uint8", "_contrib_quantize_asym"),
        ("lstm0", "_contrib_quantized_rnn"),
        ("lstm1_padded", "Concat"),
        ("lstm1_uint8", "_contrib_quantize_asym"),
        ("lstm1", "_contrib_quantized_rnn"),
    )
    originals = {name: [(name, op)] for name, op in (("embedded", "Embedding"), ("lstm0", "RNN"), ("lstm1", "RNN"))}
    layers = layers_of(graph, originals)
    assert layers["embedded_uint8"] == Layer("embedded", "quantize", ("embedded",))
    # Columns of zeros that a layer gets belong to it, and so does the conversion after them.
    assert layers["lstm1_uint8"] == Layer("lstm1", "quantize", ("lstm1",))
    assert layers["lstm1_padded"] == layers["lstm1"] == Layer("lstm1", "RNN", ("lstm1",))


def test_without_originals_operators_are_their_own_layers() -> None:
    inner = Node("inner", "Convolution", (Tensor("data"),))
    body = Graph((inner,), ("data",), (inner.output,))
    plain = chain(("data_relu", "Activation"), ("fused", "_sg_mkldnn_conv"))
    fused = Node("fused", "_sg_mkldnn_conv", (Tensor("data_relu"),), body=body)
    layers = layers_of(Graph((plain.nodes[0], fused), ("data",), (fused.output,)), {})
    assert layers == {
        "data_relu": Layer("data_relu", "Activation", ("data_relu",)),
        "fused": Layer("fused", "Convolution", ("fused",)),
    }


def test_every_operator_of_a_real_network_belongs_to_a_layer_of_the_original(digits_int8: QuantizedModel) -> None:
    from quantkit.quantization.explain import explain

    originals: dict[str, list[tuple[str, str]]] = {}
    for row in explain(digits_int8.source.fused, digits_int8.plan):
        if row.into:
            originals.setdefault(row.into, []).append((row.node, row.operator))
    graph = digits_int8.graph
    layers = layers_of(graph, originals)
    assert list(layers) == [node.name for node in graph.nodes]
    names = {node.name for node in digits_int8.source.model.graph.nodes} | set(graph.inputs)
    assert {layer.name for layer in layers.values()} <= names
    convolutions = {node.name for node in digits_int8.source.model.graph.nodes if node.op == "Convolution"}
    assert {layer.name for layer in layers.values() if layer.operator == "Convolution"} == convolutions
