"""What it costs that all features of a network's input share one scale, as the kernels have it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator

import numpy as np

from quantkit.ir.fused_layer import fused_layer_of
from quantkit.ir.graph import Node
from quantkit.ir.operators import computing
from quantkit.ir.recurrent_layer import known_matrices, recurrent_layer_of
from quantkit.quantization.quantized_graph import QuantizedGraph

# Features of one unit, normalised or pixels, cost a few dB; one in a unit ten times as small as others' costs this.
_MUCH = 20.0


class FeatureScaleWarning(UserWarning):
    """Features of the network's input differ so much in size that INT8 loses the smaller ones."""


def warn_of_feature_scales(network: QuantizedGraph, batches: Iterable[np.ndarray]) -> None:
    """Warn if layers in INT8 lose much since all features of the network's input are rounded with one scale.

    Args:
        network: the quantized network, which reads vectors or sequences.
        batches: its inputs, float32 (samples, ..., features).
    """
    layers = list(_reading_input(network))
    if not layers:
        return
    peaks = np.max([np.abs(batch).max(axis=tuple(range(batch.ndim - 1))) for batch in batches], axis=0)
    for node, weight in layers:
        cost = shared_scale_cost(peaks, weight) if weight.shape[1] == len(peaks) else 0.0
        if cost > _MUCH:
            name = next(iter(node.origin), node.name)
            warnings.warn(
                f"features of the network's input reach {peaks[peaks > 0].min():.3g} to {peaks.max():.3g}, and in "
                f"INT8 they share one scale, which costs {name} up to {cost:.0f} dB between signal and noise; scale "
                f"them alike and put the factors into the weights of {name}, or keep it in FP32 (exclude, --exclude "
                f"{name})",
                FeatureScaleWarning,
                stacklevel=2,
            )


def shared_scale_cost(peaks: np.ndarray, weight: np.ndarray) -> float:
    """By how many dB a layer's rounding noise would fall if each feature had a scale of its own.

    A scale is proportional to the largest value that it is for, the noise in the layer's sums to the scale times the
    weights.

    Args:
        peaks: the largest magnitude of each feature, (features,), not all of them 0.
        weight: the layer's weights, (rows, features).
    """
    used = peaks > 0
    power = np.square(weight[:, used], dtype=np.float64).sum(axis=0)
    own = float((np.square(peaks[used], dtype=np.float64) * power).sum())
    return 10 * math.log10(float(peaks.max()) ** 2 * power.sum() / own) if own else 0.0


def _reading_input(network: QuantizedGraph) -> Iterator[tuple[Node, np.ndarray]]:
    """The INT8 layers that read the network's input, moved at most, with their weights (rows, features)."""
    graph = network.graph
    for node in network.int8_weighted:
        dense, lstm = fused_layer_of(node), recurrent_layer_of(node)
        if computing(graph, node.inputs[0]) is not None:
            continue
        if lstm is not None:
            yield node, known_matrices(graph, lstm).of_input
        elif dense is not None and not dense.is_convolution:
            yield node, graph.params[dense.weight.node]
