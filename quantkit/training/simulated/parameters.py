"""Which parameters of a training graph are trained, how fast, and why the others are not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from quantkit.ir.fused_layer import fused_layer_of
from quantkit.ir.graph import Graph
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.training.simulated.weights import weight_obstacle

ParameterKind = Literal["weight", "bias", "range"]

_NORMALIZATION = "batch normalization is frozen"
_OTHER = "it is no weight or bias of a layer"


@dataclass(frozen=True)
class TrainedParameter:
    """A parameter of a training graph that is to be trained.

    Attributes:
        kind: a layer's weight or bias, or the logarithm of the factor by which a range has grown.
        rate: the multiplier of its learning rate: the magnitude of the layer's weights, 1 for ranges. Optimizers whose
            updates have about the size of the rate, as those of Adam (Kingma and Ba, 2015, arXiv:1412.6980), then
            change all by about the same share of their magnitude.
        decays: whether it is one that weight decay applies to.
    """

    kind: ParameterKind
    rate: float
    decays: bool


def trained_parameters(network: QuantizedGraph, made: Graph, ranges: Iterable[str]) -> dict[str, TrainedParameter]:
    """The parameters to train: weights and biases of layers, in INT8 or FP32, and ranges.

    Args:
        network: the quantized network.
        made: its training graph.
        ranges: the names of the logarithms of ranges.
    """
    found: dict[str, TrainedParameter] = {}
    for node in network.graph.nodes:
        layer = fused_layer_of(node)
        if layer is None or layer.weight.node not in network.graph.params:
            continue
        weight = network.graph.params[layer.weight.node]
        rate = float(np.sqrt(np.square(weight, dtype=np.float64).mean())) or 1.0
        found[layer.weight.node] = TrainedParameter("weight", rate, True)
        if layer.bias is not None and layer.bias.node in network.graph.params:
            found[layer.bias.node] = TrainedParameter("bias", rate, False)
    for name in _fixed_weights(network):
        found.pop(name, None)
    found.update(dict.fromkeys(ranges, TrainedParameter("range", 1.0, False)))
    return {name: each for name, each in found.items() if name in made.params}


def frozen_parameters(
    network: QuantizedGraph, made: Graph, trained: Mapping[str, TrainedParameter], added: Mapping[str, str]
) -> dict[str, str]:
    """Why the other parameters keep their values, by name; ``added`` has those of parameters that were added."""
    normalizing = {tensor.node for node in made.nodes if node.op == "BatchNorm" for tensor in node.inputs[1:]}
    reasons = {**dict.fromkeys(normalizing, _NORMALIZATION), **_fixed_weights(network), **added}
    return {name: reasons.get(name, _OTHER) for name in made.params if name not in trained}


def _fixed_weights(network: QuantizedGraph) -> dict[str, str]:
    obstacles = ((layer, weight_obstacle(network, layer)) for layer in network.int8_layers)
    return {layer.weight.node: obstacle for layer, obstacle in obstacles if obstacle is not None}
