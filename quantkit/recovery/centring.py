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

from quantkit.calibration.collect import collect_ranges
from quantkit.calibration.ranges import Range
from quantkit.emission.mxnet_float import float_graph
from quantkit.engine.stream import outputs_of
from quantkit.fusion.unit import extended, layer_of, unit_of
from quantkit.graph.graph import Graph, Node, Tensor
from quantkit.graph.operators import integers
from quantkit.quantization.plan import Activation
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.recovery.patches import channel_sums

_BATCH = 4


def centred(network: QuantizedGraph, images: np.ndarray, method: str) -> QuantizedGraph:
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
    forms = dict(plan.activations)
    shifts: dict[Tensor, np.ndarray] = {}
    unsigned = []
    for tensor, middle in middles.items():
        peak = ranges[str(tensor)].largest
        if not 0 < peak < forms[tensor].range.largest:
            continue
        if _only_added_to_unsigned(network, tensor):
            unsigned.append(tensor)
            shifts[tensor] = peak - middle
            forms[tensor] = Activation(Range(0.0, 2 * peak), "uint8")
        else:
            shifts[tensor] = -middle
            forms[tensor] = Activation(Range(-peak, peak), "int8")
    shifted = _shifted(graph, shifts)
    nodes = tuple(_with_relu(node) if node.output in unsigned else node for node in shifted.nodes)
    return QuantizedGraph(replace(shifted, nodes=nodes), replace(plan, activations=forms))


def can_shift(network: QuantizedGraph, node: Node) -> bool:
    """Whether a constant may be added to each channel of what a node puts out: its readers can take it out again."""
    unit, graph = network.int8_convolution(node), network.graph
    if unit is None or unit.activation is not None or node.output in graph.outputs:
        return False
    return all(_takes_shift(network, reader, node.output) for reader in graph.consumers.get(node.output, ()))


def _takes_shift(network: QuantizedGraph, reader: Node, tensor: Tensor) -> bool:
    unit = network.int8_convolution(reader)
    if unit is None:
        return False
    # At a padded border some of the constant is missing.
    return tensor != unit.data or not any(integers(unit.core, "pad"))


def _only_added_to_unsigned(network: QuantizedGraph, tensor: Tensor) -> bool:
    graph = network.graph
    own = unit_of(graph.producer(tensor))
    if own is None or own.addend is not None:
        return False
    readers = [(reader, unit_of(reader)) for reader in graph.consumers[tensor]]
    return all(
        unit is not None and unit.addend == tensor != unit.data and network.form(reader.output).dtype == "uint8"
        for reader, unit in readers
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
        unit = unit_of(node)
        if unit is None or unit.bias is None:
            continue
        change = shifts.get(node.output, np.float32(0.0))
        if unit.addend is not None:
            change = change - shifts.get(unit.addend, np.float32(0.0))
        if unit.data in shifts:
            change = change - channel_sums(unit, params[unit.weight.node], shifts[unit.data])
        if np.any(change):
            params[unit.bias.node] = (params[unit.bias.node] + change).astype(np.float32)
    return replace(graph, params=params)


def _with_relu(node: Node) -> Node:
    """The layer with a ReLU, which has its kernel put out unsigned integers."""
    unit = layer_of(node)
    name = f"{node.name}_unsigned"
    relu = Node(name, "Activation", (node.output,), {"act_type": "relu"})
    return replace(extended(unit, relu), name=node.name)
