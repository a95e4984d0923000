"""Giving every INT8 layer a weight and a bias of its own, which the algorithms may then change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from quantkit.ir.fused_layer import FusedLayer
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.names import Names
from quantkit.quantization.quantized_graph import QuantizedGraph


def with_own_params(network: QuantizedGraph) -> QuantizedGraph:
    """The same network; in it no INT8 layer shares a parameter with another operator, or lacks a bias."""
    graph, names = network.graph, Names(network.graph.names)
    for layer in network.int8_layers:
        if layer.bias is None:
            graph = _replaced(graph, layer.node, _with_bias(graph, layer, names))
        for tensor in (layer.weight, layer.bias):
            if tensor is not None and len(graph.consumers[tensor]) > 1:
                graph = _with_copy(graph, layer.node.name, tensor, names)
    for lstm in network.int8_lstms:
        if len(graph.consumers[lstm.parameters]) > 1:
            graph = _with_copy(graph, lstm.node.name, lstm.parameters, names)
    return replace(network, graph=graph)


def _with_bias(graph: Graph, layer: FusedLayer, names: Names) -> tuple[Node, str, np.ndarray]:
    name = names.take(f"{layer.node.name}_zero_bias")
    inputs = (*layer.node.inputs[:2], Tensor(name), *layer.node.inputs[2:])
    attrs = {**layer.core.attrs, "no_bias": "False"}
    if layer.node.body is None:
        node = replace(layer.node, inputs=inputs, attrs=attrs)
    else:
        body = layer.node.body
        core = replace(layer.core, attrs=attrs, inputs=(*layer.core.inputs[:2], Tensor("bias")))
        nodes = tuple(core if inner is layer.core else inner for inner in body.nodes)
        read = (*body.inputs[:2], "bias", *body.inputs[2:])
        node = replace(layer.node, inputs=inputs, body=replace(body, nodes=nodes, inputs=read))
    return node, name, np.zeros(len(graph.params[layer.weight.node]), np.float32)


def _with_copy(graph: Graph, reader: str, tensor: Tensor, names: Names) -> Graph:
    name = names.take(f"{reader}_own_{tensor.node}")
    node = graph.by_name[reader]
    inputs = tuple(Tensor(name) if read == tensor else read for read in node.inputs)
    return _replaced(graph, node, (replace(node, inputs=inputs), name, graph.params[tensor.node]))


def _replaced(graph: Graph, old: Node, change: tuple[Node, str, np.ndarray]) -> Graph:
    new, name, value = change
    nodes = tuple(new if node is old else node for node in graph.nodes)
    return replace(graph, nodes=nodes, params={**graph.params, name: value})
