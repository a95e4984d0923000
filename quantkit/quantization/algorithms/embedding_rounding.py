"""Rounding embedding tables so that the gates of LSTM layers that read them change least.

A table is all that such a layer ever reads, so its rows can be rounded like weights: jointly, where one feature's error
makes up for another's in the layer's products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from quantkit.ir.graph import Node
from quantkit.ir.recurrent_layer import known_matrices
from quantkit.quantization.algorithms.rounding import round_jointly, with_ridge
from quantkit.quantization.quantized_graph import QuantizedGraph

# Of the mean square of the weights: what errors in all features alike cost.
_RIDGE = 0.05

# Tokens at once.
_ROWS = 4096


def with_rounded_embeddings(network: QuantizedGraph) -> QuantizedGraph:
    """The network with embedding tables that hold multiples of their tensors' scales.

    Only tables of signed values that a single operator reads, whose result nothing but INT8 LSTM layers read, are
    rounded.
    """
    params = dict(network.graph.params)
    for node in network.graph.nodes:
        if matrices := list(_weights_of_readers(network, node)):
            table = params[node.inputs[1].node]
            step = np.float32(network.form(node.output).params.scale)
            products = np.sum([weights.T @ weights for weights in matrices], axis=0)
            params[node.inputs[1].node] = _rounded(table, step, products[None])
    return replace(network, graph=replace(network.graph, params=params))


def _weights_of_readers(network: QuantizedGraph, node: Node) -> Iterator[np.ndarray]:
    """The weights of the INT8 LSTM layers that read an embedding, (rows, features); none where it has to stay."""
    graph = network.graph
    readers = graph.consumers.get(node.output, ())
    if node.op != "Embedding" or node.output in graph.outputs or not readers:
        return
    table = node.inputs[1]
    if table.node not in graph.params or graph.sole_consumer(table) is None:
        return
    layers = [layer for reader in readers if (layer := network.int8_recurrent(reader)) is not None]
    reads_data_alone = len(layers) == len(readers) and all(node.output not in layer.states for layer in layers)
    if reads_data_alone and network.form(node.output).dtype == "int8":
        yield from (known_matrices(graph, layer).of_input for layer in layers)


def _rounded(table: np.ndarray, step: np.float32, products: np.ndarray) -> np.ndarray:
    """The rows of a table, float32 (tokens, features), as multiples of ``step``."""
    ridge = _RIDGE * np.trace(products, axis1=1, axis2=2)[:, None, None] / products.shape[1]
    curvature = with_ridge(products, np.where(ridge > 0, ridge, 1.0))
    parts = []
    for start in range(0, len(table), _ROWS):
        rows = table[None, start : start + _ROWS]
        steps = np.full(rows.shape[:2], step)
        parts.append(round_jointly(rows, steps, curvature, keeps=None)[0] * step)
    return np.concatenate(parts)
