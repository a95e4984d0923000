"""Makes a constant that is added to each channel of a layer the layer's bias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Optional

import numpy as np

from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import ADDITIONS, flag

_LAYERS = frozenset({"Convolution", "Deconvolution", "FullyConnected"})


def with_biases(graph: Graph) -> Graph:
    """The network with each sum of a layer and a constant per channel as one layer.

    Exporters write dense layers as MatMul and Add; TensorFlow writes convolutions that way, too. The layer takes the
    sum's name and place.
    """
    params = dict(graph.params)
    nodes: dict[str, Node] = {node.name: node for node in graph.nodes}
    for node in graph.nodes:
        match = _layer_and_bias(graph, node, nodes)
        if match is not None:
            layer, bias, values = match
            params[bias] = values
            del nodes[layer.name]
            nodes[node.name] = replace(
                layer,
                name=node.name,
                inputs=(*layer.inputs, Tensor(bias)),
                attrs={**layer.attrs, "no_bias": "False"},
                origin=tuple(dict.fromkeys((*node.origin, *layer.origin))),
            )
    return replace(graph, nodes=tuple(nodes.values()), params=params)


def _layer_and_bias(graph: Graph, node: Node, nodes: Mapping[str, Node]) -> Optional[tuple[Node, str, np.ndarray]]:
    if node.op not in ADDITIONS:
        return None
    for own, other in (node.inputs, node.inputs[::-1]):
        layer, values = nodes.get(own.node), graph.params.get(other.node)
        if layer is None or values is None or layer.op not in _LAYERS or not flag(layer, "no_bias"):
            continue
        if graph.sole_consumer(own) is None or graph.sole_consumer(other) is None:
            continue
        weight = graph.params[layer.inputs[1].node]
        channels = weight.shape[1] * int(layer.attrs["num_group"]) if layer.op == "Deconvolution" else len(weight)
        # The constant has as many axes as the sum; channels are the last of a dense layer, else the second.
        axis = values.ndim - 1 if layer.op == "FullyConnected" else 1
        if values.size == channels == values.shape[axis]:
            return layer, other.node, values.reshape(-1)
    return None
