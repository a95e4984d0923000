"""The weights of lowered INT8 layers that put out integers."""

from __future__ import annotations

import numpy as np

from quantkit.ir.fused_layer import FusedLayer
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.weights import without_dead_channels


def engine_weight(network: QuantizedGraph, layer: FusedLayer) -> np.ndarray:
    """The weights of a lowered INT8 layer that puts out integers.

    They are its own, but for channels that the engine cannot quantize.
    """
    params = network.graph.params
    bias = params[layer.bias.node] if layer.bias else None
    steps = (network.form(tensor).params.scale for tensor in (layer.data, layer.node.output))
    return without_dead_channels(params[layer.weight.node], bias, *steps)
