"""The weights that INT8 layers are lowered with."""

from __future__ import annotations

import numpy as np

from quantkit.fusion.unit import Unit
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.weights import without_dead_channels


def engine_weight(network: QuantizedGraph, unit: Unit) -> np.ndarray:
    """The weights that an INT8 convolution is lowered with: its own, where the engine can quantize these."""
    params = network.graph.params
    bias = params[unit.bias.node] if unit.bias else None
    steps = (network.form(tensor).params.scale for tensor in (unit.data, unit.node.output))
    return without_dead_channels(params[unit.weight.node], bias, *steps)
