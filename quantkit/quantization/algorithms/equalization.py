"""Scaling tensors, channel by channel, so that every channel has the range of the largest.

An INT8 tensor has one scale; a channel of small values has few of its integers. Layers can scale
them up without changing what the network computes (Nagel et al., "Data-free quantization through weight
equalization and bias correction", ICCV 2019, section 4.1; for activations Xiao et al., "SmoothQuant",
ICML 2023): the producer's weights take the factor, the readers' weights its inverse. Here only where
weights lose nothing by it, as each output channel has a weight scale of its own: the readers are depthwise
convolutions, or sums whose results are scaled alike. So it reaches the trunks of pre-activation
residual networks, and what lies before depthwise convolutions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from quantkit.backends.mxnet.stream import outputs_of
from quantkit.calibration.collect import collect_ranges
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.fused_layer import FusedLayer
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.quantized_graph import QuantizedGraph

_BATCH = 4

# A channel that the images hardly excite may be larger on others.
_LARGEST_FACTOR = 8.0


def equalized(network: QuantizedGraph, images: np.ndarray, method: str) -> QuantizedGraph:
    """The network with scaled tensors and their new ranges.

    Args:
        network: the quantized network, its INT8 layers with weights and biases of their own.
        images: the network's input, float32.
        method: the calibration method, for the new ranges.
    """
    graph, plan = network.graph, network.plan
    trunks = list(_scaled_alike(network))
    tensors = [tensor for trunk in trunks for tensor in trunk]
    if not tensors:
        return network
    batches = [images[start : start + _BATCH] for start in range(0, len(images), _BATCH)]
    peaks = _peaks(graph, tensors, batches)
    # Where a tensor is 0 on all images, they show neither factors nor ranges.
    shown = [trunk for trunk in trunks if all(peaks[tensor].any() for tensor in trunk)]
    factors = {tensor: factor for trunk in shown for tensor, factor in _factors(plan, trunk, peaks).items()}
    scaled = _scaled(network, factors)
    ranges = collect_ranges(float_graph(scaled), list(factors), batches, _BATCH, method) if factors else {}
    forms = {tensor: replace(plan.tensors[tensor], range=ranges[str(tensor)]) for tensor in factors}
    return replace(network, graph=scaled, plan=replace(plan, tensors={**plan.tensors, **forms}))


def _scaled_alike(network: QuantizedGraph) -> Iterator[tuple[Tensor, ...]]:
    """Tensors that sums tie together, and that can all be scaled."""
    tied: dict[Tensor, tuple[Tensor, ...]] = {}
    for layer in network.int8_layers:
        if not layer.is_convolution:
            continue
        output = layer.node.output
        joined = (*tied.get(layer.addend, (layer.addend,)), output) if layer.addend is not None else (output,)
        tied.update(dict.fromkeys(joined, joined))
    for trunk in dict.fromkeys(tied.values()):
        if all(_can_scale(network, tensor) for tensor in trunk):
            yield trunk


def _can_scale(network: QuantizedGraph, tensor: Tensor) -> bool:
    graph = network.graph
    layer = network.int8_convolution(graph.producer(tensor))
    if layer is None or layer.activation_kind not in (None, "relu") or tensor in graph.outputs:
        return False
    readers = graph.consumers.get(tensor, ())
    return bool(readers) and all(_takes_scale(network, reader, tensor) for reader in readers)


def _takes_scale(network: QuantizedGraph, reader: Node, tensor: Tensor) -> bool:
    layer = network.int8_convolution(reader)
    return layer is not None and (tensor != layer.data or _is_depthwise(network.graph, layer))


def _is_depthwise(graph: Graph, layer: FusedLayer) -> bool:
    """Whether each output channel reads one input channel, and each input channel is read by one output channel."""
    weight = graph.params[layer.weight.node]
    return layer.groups == len(weight) and weight.shape[1] == 1


def _peaks(graph: Graph, tensors: list[Tensor], batches: list[np.ndarray]) -> dict[Tensor, np.ndarray]:
    """The largest magnitude of each channel."""
    found: dict[Tensor, np.ndarray] = {}
    for values in outputs_of(float_graph(graph.with_outputs(tensors).pruned()), batches, _BATCH):
        for tensor, value in zip(tensors, values):
            peak = np.abs(value).max(axis=(0, *range(2, value.ndim)))
            found[tensor] = np.maximum(found.get(tensor, 0.0), peak)
    return found


def _factors(
    plan: QuantizationPlan, trunk: tuple[Tensor, ...], peaks: Mapping[Tensor, np.ndarray]
) -> dict[Tensor, np.ndarray]:
    """What each channel of these tensors is multiplied by, the same in all: at least 1."""
    used = np.max([peaks[tensor] / plan.tensors[tensor].range.largest for tensor in trunk], axis=0)
    factor = used.max() / np.maximum(used, used.max() / _LARGEST_FACTOR)
    return dict.fromkeys(trunk, factor.astype(np.float32))


def _scaled(network: QuantizedGraph, factors: Mapping[Tensor, np.ndarray]) -> Graph:
    params = dict(network.graph.params)
    for layer in network.int8_layers:
        if not layer.is_convolution or layer.bias is None:
            continue
        result = factors.get(layer.node.output, np.float32(1.0))
        weight, bias = params[layer.weight.node], params[layer.bias.node]
        tail = (1,) * (weight.ndim - 2)
        weight = weight * np.broadcast_to(result, len(weight)).reshape(-1, 1, *tail)
        if layer.data in factors:
            weight = weight / factors[layer.data].reshape(-1, 1, *tail)
        params[layer.weight.node] = weight.astype(np.float32)
        params[layer.bias.node] = (bias * result).astype(np.float32)
    return replace(network.graph, params=params)
