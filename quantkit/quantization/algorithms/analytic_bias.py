"""Bias correction without images: what batch normalization knows of a layer's input.

Rounding a layer's weights W to Q shifts its results by (Q - W) E[x] in the mean, which the bias can take back
(Nagel et al., "Data-free quantization through weight equalization and bias correction", ICCV 2019, section
4.2.1). Where x comes out of a batch normalization, its channels are about normally distributed with the means
beta and the deviations gamma; after an activation E[x] is that of a clipped normal distribution (there,
appendix C).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Optional

import numpy as np

from quantkit.extras import using
from quantkit.ir.fused_layer import FusedLayer, fused_layer_of
from quantkit.ir.graph import Graph, Node
from quantkit.ir.operators import flag, number
from quantkit.quantization.algorithms.patches import channel_sums
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.simulation.integer_sums import integer_weights

# A channel that batch normalization has switched off has a constant value.
_LEAST_DEVIATION = 1e-12


def with_analytic_biases(original: Graph, network: QuantizedGraph) -> QuantizedGraph:
    """The network with biases that make up for the rounding of weights.

    Layers whose input does not come straight out of a batch normalization, with at most a ReLU between, stay as they
    are. Padding is not accounted for.

    Args:
        original: the network before fusion, for its batch normalizations.
        network: the quantized network, its INT8 layers with biases of their own.
    """
    graph = network.graph
    params = dict(graph.params)
    for layer in network.int8_layers:
        mean = _mean_input(original, graph, layer)
        if mean is not None and layer.bias is not None:
            weight = graph.params[layer.weight.node]
            rounded = integer_weights(weight, network.weight_rounding(layer.node)).real
            shift = channel_sums(layer, rounded - weight, mean)
            params[layer.bias.node] = (params[layer.bias.node] - shift).astype(np.float32)
    return replace(network, graph=replace(graph, params=params))


def clipped_normal_mean(mean: np.ndarray, deviation: np.ndarray, low: float, high: float) -> np.ndarray:
    """The mean of a normal variable that is clipped to ``low`` and ``high``, element by element."""
    with using("benchmark", "corrections of biases"):
        from scipy.stats import norm

    below, above = norm(mean, deviation).cdf(low), norm(mean, deviation).sf(high)
    inside = mean * (1 - below - above)
    inside += deviation * (norm.pdf((low - mean) / deviation) - norm.pdf((high - mean) / deviation))
    return np.asarray(inside + np.where(below > 0, low, 0) * below + np.where(above > 0, high, 0) * above)


def _mean_input(original: Graph, graph: Graph, layer: FusedLayer) -> Optional[np.ndarray]:
    """The mean of each channel of a layer's input, (inputs,); None where batch normalization does not tell."""
    producer = fused_layer_of(graph.producer(layer.data))
    if producer is None or producer.addend is not None or producer.activation_kind not in (None, "relu", "relu6"):
        return None
    named: Mapping[str, Node] = original.by_name
    norms = [named[name] for name in producer.node.origin if name in named and named[name].op == "BatchNorm"]
    if not norms or not layer.is_convolution:
        return None
    gamma, beta = (original.params.get(tensor.node) for tensor in norms[-1].inputs[1:3])
    if gamma is None or beta is None:
        return None
    deviation = np.ones_like(beta) if flag(norms[-1], "fix_gamma", default=True) else np.abs(gamma)
    low = 0.0 if producer.is_non_negative else -np.inf
    high = number(producer.activation, "a_max", np.inf) if producer.activation is not None else np.inf
    return clipped_normal_mean(beta.astype(np.float64), np.maximum(deviation, _LEAST_DEVIATION), low, high)
