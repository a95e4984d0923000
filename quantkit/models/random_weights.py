"""Random weights that behave like trained ones: activations neither vanish nor explode, whatever the depth.

Convolutions and dense layers get He's normal initialisation (He et al. 2015, "Delving Deep into
Rectifiers"). Batch normalisation gets gamma 1, beta 0, and for each channel the mean and the variance that
its input is expected to have: they are computed by carrying both through the network, with every
activation taken as normally distributed and independent of the others.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from quantkit.graph.graph import Graph, Node, Tensor
from quantkit.graph.operators import ADDITIONS, activation_kind, flag, integer

Shapes = Mapping[str, tuple[int, ...]]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def random_weights(graph: Graph, shapes: Shapes, seed: int = 0) -> dict[str, np.ndarray]:
    """Float32 values for every parameter; the same bytes for the same names, shapes and seed.

    Args:
        graph: the network, with its parameters still among the inputs.
        shapes: the parameters' shapes by name.
        seed: another seed gives other weights.
    """
    params = {name: _initial(name, shape, seed) for name, shape in shapes.items()}
    moments = {Tensor(name): _Moments(np.zeros(1), np.ones(1)) for name in graph.inputs if name not in shapes}
    for node in graph.nodes:
        read = [moments[tensor] for tensor in node.inputs if tensor in moments]
        if not read:
            continue
        if node.op == "BatchNorm":
            mean, variance = (node.inputs[position].node for position in (3, 4))
            params[mean] = _rounded(np.broadcast_to(read[0].mean, shapes[mean]))
            params[variance] = _rounded(np.broadcast_to(read[0].variance, shapes[variance]))
        moments[node.output] = _through(node, read, params)
    return params


@dataclass(frozen=True)
class _Moments:
    """Expected mean and variance of a tensor, per channel (or one value for all)."""

    mean: np.ndarray
    variance: np.ndarray

    def channels(self, count: int) -> _Moments:
        """Per-channel values for ``count`` channels; flattened feature maps repeat each channel's."""
        if count % self.mean.size == 0:
            repeats = count // self.mean.size
            return _Moments(np.repeat(self.mean, repeats), np.repeat(self.variance, repeats))
        return _Moments(np.full(count, self.mean.mean()), np.full(count, self.variance.mean()))


def _initial(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    if name.endswith(("gamma", "running_var", "moving_var")):
        return np.ones(shape, np.float32)
    if len(shape) < 2:
        return np.zeros(shape, np.float32)
    digest = hashlib.sha256(f"{seed}:{name}:{shape}".encode()).digest()
    generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))
    deviation = np.float32(math.sqrt(2.0 / math.prod(shape[1:])))
    return generator.standard_normal(shape, np.float32) * deviation


def _through(node: Node, read: list[_Moments], params: Mapping[str, np.ndarray]) -> _Moments:
    first = read[0]
    if node.op in ("Convolution", "FullyConnected"):
        return _weighted(node, first, params)
    if node.op == "BatchNorm":
        return _Moments(np.zeros(first.mean.size), np.ones(first.mean.size))
    if activation_kind(node) in ("relu", "relu6"):
        return _rectified(first)
    if node.op in ADDITIONS and len(read) == 2:
        # The summands of a residual block are nearly independent.
        return _Moments(first.mean + read[1].mean, first.variance + read[1].variance)
    if node.op == "Concat":
        return _Moments(
            np.concatenate([part.mean for part in read]), np.concatenate([part.variance for part in read])
        )
    return first


def _weighted(node: Node, read: _Moments, params: Mapping[str, np.ndarray]) -> _Moments:
    """The moments of sums of inputs weighted by known weights."""
    weight = params[node.inputs[1].node].astype(np.float64)
    groups = integer(node, "num_group", 1)
    filters = weight.reshape(weight.shape[0], weight.shape[1], -1)
    inputs = read.channels(groups * weight.shape[1])
    group = np.arange(weight.shape[0]) // (weight.shape[0] // groups)
    mean = (filters.sum(axis=2) * inputs.mean.reshape(groups, -1)[group]).sum(axis=1)
    variance = ((filters**2).sum(axis=2) * inputs.variance.reshape(groups, -1)[group]).sum(axis=1)
    if not flag(node, "no_bias") and len(node.inputs) > 2:
        mean = mean + params[node.inputs[2].node]
    return _Moments(mean, variance)


def _rectified(read: _Moments) -> _Moments:
    """The moments of max(0, x) for normally distributed x."""
    deviation = np.sqrt(read.variance) + 1e-12
    ratio = read.mean / deviation
    density = np.exp(-0.5 * ratio**2) / math.sqrt(2 * math.pi)
    below = 0.5 * (1 + _erf(ratio / math.sqrt(2)))
    mean = read.mean * below + deviation * density
    square = (read.mean**2 + read.variance) * below + read.mean * deviation * density
    return _Moments(mean, np.maximum(square - mean**2, 0.0))


def _rounded(values: np.ndarray) -> np.ndarray:
    """Eight significant bits: sums that differ in the last bit from one CPU to the next give the same values."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 256) / 256, exponent).astype(np.float32)
