"""Applying the algorithms that reduce what rounding to 8 bits costs, before the INT8 network is lowered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from quantkit.errors import DataError
from quantkit.ir.graph import Graph
from quantkit.progress import Progress
from quantkit.quantization.algorithms.analytic_bias import with_analytic_biases
from quantkit.quantization.algorithms.channel_shift import with_channel_shift
from quantkit.quantization.algorithms.embedding_rounding import with_rounded_embeddings
from quantkit.quantization.algorithms.equalization import equalized
from quantkit.quantization.algorithms.observer_choice import with_chosen_ranges
from quantkit.quantization.algorithms.own_params import with_own_params
from quantkit.quantization.algorithms.reconstruction import reconstruct
from quantkit.quantization.algorithms.state_range import with_state_ranges
from quantkit.quantization.ptq_config import NO_ALGORITHMS, PTQConfig
from quantkit.quantization.quantized_graph import QuantizedGraph

# Of a batch. Vectors and sequences have no mirror images.
_IMAGE_AXES = 4


@dataclass(frozen=True, eq=False)
class AdjustedNetwork:
    """A quantized network whose weights, biases and ranges were changed. In FP32 it is no longer the original.

    ``algorithms`` says how; its ``num_samples`` is how many there were, mirrored ones included. ``requested`` is what
    was asked for. ``exact`` is the same network before its weights were adapted to rounding, tensors shifted already:
    a layer that returns to FP32 takes its parameters from there.
    """

    network: QuantizedGraph
    algorithms: PTQConfig
    exact: Graph
    requested: PTQConfig = NO_ALGORITHMS


def with_mirrored(batches: Sequence[np.ndarray], most: int) -> list[np.ndarray]:
    """The samples, and of images (images, channels, height, width) as many mirror images as make ``most`` in all.

    An image and its mirror image are both among those of even or both among those of odd number: what every second
    image is fitted to must not be judged by these images' own mirror images. So one image alone has none, and of an
    odd number the first has none.
    """
    images = np.concatenate(batches)
    if images.ndim != _IMAGE_AXES:
        return [images]
    mirrored = images[len(images) % 2 :, ..., ::-1]
    return [images, mirrored[: max(0, most - len(images))]]


def apply_algorithms(
    network: QuantizedGraph,
    original: Graph,
    batches: Sequence[np.ndarray],
    method: str,
    algorithms: PTQConfig,
    progress: Progress,
) -> AdjustedNetwork:
    """Apply the techniques that ``algorithms`` switches on.

    Args:
        network: the quantized network. The same operators run in INT8 afterwards.
        original: the network before fusion.
        batches: preprocessed samples, each float32 (images, channels, height, width).
        method: the calibration method, for tensors whose range changes.
        algorithms: the techniques. With none of them nothing is changed, and no samples are needed.
        progress: wraps the walk over the operators.

    Raises:
        DataError: there are no samples.
    """
    if not algorithms.works:
        return AdjustedNetwork(network, NO_ALGORITHMS, network.graph)
    network = with_own_params(network)
    if algorithms.analytic_bias:
        corrected = with_analytic_biases(original, network)
        return AdjustedNetwork(corrected, replace(algorithms, num_samples=0), network.graph)
    if not batches:
        raise DataError("there are no samples for the algorithms to look at; give some, or use the preset none")
    images = np.concatenate(batches)
    if algorithms.channel_shift:
        network = with_channel_shift(network, images, method)
    if algorithms.equalize:
        network = equalized(network, images, method)
    if algorithms.observers:
        network = with_chosen_ranges(network, images)
    exact = network.graph
    if algorithms.rounding:
        network = with_state_ranges(with_rounded_embeddings(network), images)
    if algorithms.simulates:
        network = reconstruct(network, images, algorithms, progress)
    return AdjustedNetwork(network, replace(algorithms, num_samples=len(images)), exact)
