"""Which parameters of a training graph are trained, in which units, and why the others are not."""

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


@dataclass(frozen=True, eq=False)
class TrainedParameter:
    """A parameter of a training graph that is to be trained.

    Attributes:
        kind: a layer's weight or bias, or the logarithm of the factor by which a range has grown.
        units: what it is measured in while it is trained: the magnitudes of its layer's channels, as powers of two,
            float32 of shape (channels,); 1 for ranges. See ``trained_form``.
        keeps_scale: whether the largest of each channel stay as they are, and with them the scale of the integers.
    """

    kind: ParameterKind
    units: np.ndarray
    keeps_scale: bool = False


def channel_units(weight: np.ndarray) -> np.ndarray:
    """The magnitude of each channel of a layer's weights, as a power of two: float32 of shape (channels,).

    It is the largest power of two up to the root mean square. Channels of zeros have the layer's.

    Args:
        weight: of shape (channels, ...).
    """
    squares = np.square(weight.reshape(len(weight), -1), dtype=np.float64).mean(axis=1)
    squares[squares == 0] = squares.mean() or 1.0
    # In units of less than the smallest, values could overflow.
    units: np.ndarray = np.exp2(np.maximum(np.floor(np.log2(squares) / 2), -100.0))
    return units.astype(np.float32)


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
        units = channel_units(network.graph.params[layer.weight.node])
        # One that several layers read keeps it for those in INT8.
        earlier = found.get(layer.weight.node)
        keeps_scale = network.is_int8(node) or (earlier is not None and earlier.keeps_scale)
        found[layer.weight.node] = TrainedParameter("weight", units, keeps_scale)
        if layer.bias is not None and layer.bias.node in network.graph.params:
            found[layer.bias.node] = TrainedParameter("bias", units)
    for name in _fixed_weights(network):
        found.pop(name, None)
    found.update(dict.fromkeys(ranges, TrainedParameter("range", np.ones(1, np.float32))))
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
