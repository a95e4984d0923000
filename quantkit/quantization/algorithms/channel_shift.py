"""Shifting signed tensors, channel by channel, into the middle of the integers.

MXNet's INT8 tensors have no zero point. Where a layer's result goes only to layers that a constant per
channel can be taken out of again, biases do what a zero point would, channel by channel: the layer's own
bias adds the constant, its readers' biases subtract what their weights make of it. The idea is that of
Outlier Suppression+ (Wei et al., EMNLP 2023), here exact and free of cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from quantkit.backends.mxnet.stream import outputs_of
from quantkit.calibration.collect import collect_ranges
from quantkit.calibration.ranges import Range
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.fused_layer import extended, fused_layer_of, layer_of
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import integers
from quantkit.quantization.algorithms.patches import channel_sums
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.quantized_graph import QuantizedGraph

_BATCH = 4


def with_channel_shift(network: QuantizedGraph, images: np.ndarray, method: str) -> QuantizedGraph:
    """The network with shifted tensors and their new ranges.

    The middle of a channel is halfway between its smallest and its largest value on the images. A tensor
    whose range does not become narrower stays as it is. One that is only ever added to unsigned results
    becomes unsigned itself, which the kernel adds without loss of a bit.

    Args:
        network: the quantized network, its INT8 layers with biases.
        images: the network's input, float32.
        method: the calibration method, for the new ranges.
    """
    graph, plan = network.graph, network.plan
    tensors = [node.output for node in graph.nodes if can_shift(network, node)]
    if not tensors:
        return network
    batches = [images[start : start + _BATCH] for start in range(0, len(images), _BATCH)]
    middles = _middles(graph, tensors, batches)
    tried = _shifted(graph, {tensor: -middle for tensor, middle in middles.items()})
    ranges = collect_ranges(float_graph(tried), tensors, batches, _BATCH, method)
    forms = dict(plan.tensors)
    shifts: dict[Tensor, np.ndarray] = {}
    unsigned = []
    for tensor, middle in middles.items():
        peak = ranges[str(tensor)].largest
        if not 0 < peak < forms[tensor].range.largest:
            continue
        if _only_added_to_unsigned(network, tensor):
            unsigned.append(tensor)
            shifts[tensor] = peak - middle
            forms[tensor] = TensorQuantization(Range(0.0, 2 * peak), "uint8")
        else:
            shifts[tensor] = -middle
            forms[tensor] = TensorQuantization(Range(-peak, peak), "int8")
    shifted = _shifted(graph, shifts)
    nodes = tuple(_with_relu(node) if node.output in unsigned else node for node in shifted.nodes)
    return replace(network, graph=replace(shifted, nodes=nodes), plan=replace(plan, tensors=forms))


def can_shift(network: QuantizedGraph, node: Node) -> bool:
    """Whether a constant may be added to each channel of what a node puts out: its readers can take it out again."""
    layer, graph = network.int8_convolution(node), network.graph
    if layer is None or layer.activation is not None or node.output in graph.outputs:
        return False
    return all(_takes_shift(network, reader, node.output) for reader in graph.consumers.get(node.output, ()))


def _takes_shift(network: QuantizedGraph, reader: Node, tensor: Tensor) -> bool:
    layer = network.int8_convolution(reader)
    if layer is None:
        return False
    # At a padded border some of the constant is missing.
    return tensor != layer.data or not any(integers(layer.core, "pad"))


def _only_added_to_unsigned(network: QuantizedGraph, tensor: Tensor) -> bool:
    graph = network.graph
    own = fused_layer_of(graph.producer(tensor))
    if own is None or own.addend is not None:
        return False
    readers = [(reader, fused_layer_of(reader)) for reader in graph.consumers[tensor]]
    return all(
        layer is not None and layer.addend == tensor != layer.data and network.form(reader.output).dtype == "uint8"
        for reader, layer in readers
    )


def _middles(graph: Graph, tensors: list[Tensor], batches: list[np.ndarray]) -> dict[Tensor, np.ndarray]:
    low: dict[Tensor, np.ndarray] = {}
    high: dict[Tensor, np.ndarray] = {}
    for values in outputs_of(float_graph(graph.with_outputs(tensors).pruned()), batches, _BATCH):
        for tensor, value in zip(tensors, values):
            axes = (0, *range(2, value.ndim))
            low[tensor] = np.minimum(low.get(tensor, np.inf), value.min(axis=axes))
            high[tensor] = np.maximum(high.get(tensor, -np.inf), value.max(axis=axes))
    return {tensor: (low[tensor] + high[tensor]) / 2 for tensor in tensors}


def _shifted(graph: Graph, shifts: Mapping[Tensor, np.ndarray]) -> Graph:
    """The network with a constant per channel added to some results, and taken out again where they are read."""
    params = dict(graph.params)
    for node in graph.nodes:
        layer = fused_layer_of(node)
        if layer is None or layer.bias is None:
            continue
        change = shifts.get(node.output, np.float32(0.0))
        if layer.addend is not None:
            change = change - shifts.get(layer.addend, np.float32(0.0))
        if layer.data in shifts:
            change = change - channel_sums(layer, params[layer.weight.node], shifts[layer.data])
        if np.any(change):
            params[layer.bias.node] = (params[layer.bias.node] + change).astype(np.float32)
    return replace(graph, params=params)


def _with_relu(node: Node) -> Node:
    """The layer with a ReLU, which has its kernel put out unsigned integers."""
    layer = layer_of(node)
    name = f"{node.name}_unsigned"
    relu = Node(name, "Activation", (node.output,), {"act_type": "relu"})
    return replace(extended(layer, relu), name=node.name)
