"""Recovering what rounding to 8 bits costs, before the INT8 network is emitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from quantkit.errors import DataError
from quantkit.graph.graph import Graph
from quantkit.progress import Progress
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.recovery.analytic_bias import with_analytic_biases
from quantkit.recovery.centring import centred
from quantkit.recovery.equalization import equalized
from quantkit.recovery.observer_choice import with_chosen_ranges
from quantkit.recovery.own_params import with_own_params
from quantkit.recovery.preset import NO_RECOVERY, Recovery
from quantkit.recovery.reconstruction import reconstruct


@dataclass(frozen=True, eq=False)
class Recovered:
    """A quantized network whose weights, biases and ranges were changed. In FP32 it is no longer the original.

    ``recovery`` says how; its ``images`` is how many there were, mirrored ones included. ``exact`` is the same network
    before its weights were adapted to rounding, tensors shifted already: a layer that returns to FP32 takes its
    parameters from there.
    """

    network: QuantizedGraph
    recovery: Recovery
    exact: Graph


def with_mirrored(batches: Sequence[np.ndarray], most: int) -> list[np.ndarray]:
    """The samples (images, channels, height, width), and of their mirror images as many as make ``most`` in all.

    An image and its mirror image are both among those of even or both among those of odd number: what every second
    image is fitted to must not be judged by these images' own mirror images. So one image alone has none, and of an
    odd number the first has none.
    """
    images = np.concatenate(batches)
    mirrored = images[len(images) % 2 :, ..., ::-1]
    return [images, mirrored[: max(0, most - len(images))]]


def recover(
    network: QuantizedGraph,
    original: Graph,
    batches: Sequence[np.ndarray],
    method: str,
    recovery: Recovery,
    progress: Progress,
) -> Recovered:
    """Apply the techniques that ``recovery`` switches on.

    Args:
        network: the quantized network. The same operators run in INT8 afterwards.
        original: the network before fusion.
        batches: preprocessed samples, each float32 (images, channels, height, width).
        method: the calibration method, for tensors whose range changes.
        recovery: the techniques. With none of them nothing is changed, and no samples are needed.
        progress: wraps the walk over the operators.

    Raises:
        DataError: there are no samples.
    """
    if not recovery.works:
        return Recovered(network, NO_RECOVERY, network.graph)
    network = with_own_params(network)
    if recovery.analytic_bias:
        corrected = with_analytic_biases(original, network)
        return Recovered(corrected, replace(recovery, images=0), network.graph)
    if not batches:
        raise DataError("there are no samples to recover accuracy with; give some, or use the preset none")
    images = np.concatenate(batches)
    if recovery.centre:
        network = centred(network, images, method)
    if recovery.equalize:
        network = equalized(network, images, method)
    if recovery.observers:
        network = with_chosen_ranges(network, images)
    exact = network.graph
    if recovery.simulates:
        network = reconstruct(network, images, recovery, progress)
    return Recovered(network, replace(recovery, images=len(images)), exact)
