"""Choosing for each tensor the calibration method that disturbs its readers least.

No method is best for all tensors: a clipped outlier may be what the next layer looks for, or nothing to
it. So each tensor's candidates are compared by what the rounding does to the results of the layers that read
it. The criterion is the layer-wise output error of "Up or
down? Adaptive rounding for post-training quantization" (Nagel et al., ICML 2020), here for ranges.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from quantkit.backends.mxnet.stream import outputs_of
from quantkit.calibration.collect import collect_ranges
from quantkit.calibration.ranges import Range
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.fused_layer import FusedLayer, fused_layer_of
from quantkit.ir.graph import Graph, Tensor
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.simulation.operators import linear
from quantkit.quantization.simulation.rounding import rounded

CANDIDATES = ("mse", "minmax", "percentile", "entropy")

_BATCH = 4

# More images do not change which candidate is best.
_IMAGES = 8


def with_chosen_ranges(network: QuantizedGraph, images: np.ndarray) -> QuantizedGraph:
    """The network with the best of the ranges that four calibration methods find for each tensor.

    Only tensors that nothing but INT8 convolutions and dense layers read have a choice: the other INT8 operators
    pass their input's scale on. One that is 0 on all images keeps its range.

    Args:
        network: the quantized network.
        images: the network's input, float32.
    """
    graph, plan = network.graph, network.plan
    readers = {tensor: layers for tensor in plan.tensors if (layers := _readers(network, tensor))}
    if not readers:
        return network
    floats = float_graph(graph)
    batches = [images[start : start + _BATCH] for start in range(0, len(images), _BATCH)]
    found = [collect_ranges(floats, list(readers), batches, _BATCH, method) for method in CANDIDATES]
    candidates = {
        tensor: list(dict.fromkeys(ranges[str(tensor)] for ranges in found))
        for tensor in readers
        if all(ranges[str(tensor)].largest > 0 for ranges in found)
    }
    if not candidates:
        return network
    errors: dict[tuple[Tensor, Range], float] = defaultdict(float)
    few = batches[: _IMAGES // _BATCH]
    for values in outputs_of(floats.with_outputs(list(candidates)).pruned(), few, _BATCH):
        for tensor, value in zip(candidates, values):
            for candidate in candidates[tensor]:
                form = replace(plan.tensors[tensor], range=candidate)
                error = rounded(value, form) - value
                errors[tensor, candidate] += sum(_effect(graph, layer, tensor, error) for layer in readers[tensor])
    forms = dict(plan.tensors)
    for tensor in candidates:
        best = min((errors[tensor, candidate], index) for index, candidate in enumerate(candidates[tensor]))[1]
        forms[tensor] = replace(forms[tensor], range=candidates[tensor][best])
    return replace(network, plan=replace(plan, tensors=forms))


def _readers(network: QuantizedGraph, tensor: Tensor) -> tuple[FusedLayer, ...]:
    """The INT8 layers that read the tensor; none where others read it, or the user, or where its scale is another's."""
    graph = network.graph
    producer = graph.producer(tensor)
    passed_on = producer is not None and network.is_int8(producer) and fused_layer_of(producer) is None
    if passed_on or tensor in graph.outputs:
        return ()
    readers = graph.consumers.get(tensor, ())
    layers = tuple(layer for reader in readers if (layer := network.int8_layer(reader)) is not None)
    return layers if len(layers) == len(readers) else ()


def _effect(graph: Graph, layer: FusedLayer, tensor: Tensor, error: np.ndarray) -> float:
    """The squared error that a tensor's error makes in what the layer puts out before its activation."""
    weight = graph.params[layer.weight.node]
    total = 0.0
    if tensor == layer.data:
        total += float(np.square(linear(layer, error, weight, None)).sum(dtype=np.float64))
    if tensor == layer.addend:
        total += float(np.square(error).sum(dtype=np.float64))
    return total
