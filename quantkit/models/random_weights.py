"""Random weights that behave like trained ones: activations neither vanish nor explode, whatever the depth.

The expected mean and variance of every channel are propagated through the network, assuming normally distributed,
independent activations. Convolutions and dense layers get normal weights, scaled so that their output has variance 1
(as in He et al. 2015, "Delving Deep into Rectifiers", with the propagated variance instead of a formula), and, but for
transposed ones, orthogonal to the expected mean of their input: otherwise errors of the expectation would grow with
the mean of rectified inputs from layer to layer. Batch normalisation gets gamma 1, beta 0 and the expected moments.
Recurrent layers get uniform weights up to one over the root of their state's width, as Gluon and others do.
Residual branches are made small, as training leaves them: at full strength a deep network amplifies every rounding
error. So are the offsets of deformable convolutions, a fraction of a pixel. Products with attention masks have the
moments of a product, so that what a network reads again and again stays in proportion. Detectors take most boxes for
the background.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import ADDITIONS, activation_kind, integer, integers, number
from quantkit.models.background import background_biases

Shapes = Mapping[str, tuple[int, ...]]

_RESIDUAL_STRENGTH = 0.3

# Training starts from offsets of zero. Offsets of whole pixels between values of noise multiply deviations by ten.
_OFFSET_STRENGTH = 0.1

_DEFORMABLE = {"_contrib_DeformableConvolution": 2, "_contrib_ModulatedDeformableConvolution": 3}

# By operator: the number of the input that is its weight.
_WEIGHTED = {"Convolution": 1, "FullyConnected": 1, **_DEFORMABLE}

_PRODUCTS = frozenset({"elemwise_mul", "broadcast_mul"})
# Of the trapezoidal rule, from -5 to 5 standard deviations.
_PLACES = 41

# Weights that are processed in float64 at a time.
_BLOCK = 1 << 22

_erf = np.vectorize(math.erf, otypes=[np.float64])


def random_weights(
    graph: Graph, shapes: Shapes, seed: int = 0, constants: Mapping[str, np.ndarray] = MappingProxyType({})
) -> dict[str, np.ndarray]:
    """Float32 values for every parameter; the same bytes for the same network and seed.

    Args:
        graph: the network, with its parameters still among the inputs.
        shapes: the parameters' shapes by name.
        seed: another seed gives other weights.
        constants: parameters that no training changes, which are not random.
    """
    params = {name: constants.get(name, _initial(name, shape, seed)) for name, shape in shapes.items()}
    params.update(background_biases(graph, shapes))
    for name, fan_in in _recurrent_parameters(graph, shapes).items():
        params[name] = _uniform(name, shapes[name], seed, 1 / math.sqrt(fan_in))
    moments = {Tensor(name): _Moments(np.zeros(1), np.ones(1)) for name in graph.inputs if name not in shapes}
    strengths = {
        **dict.fromkeys(_residual_branches(graph), _RESIDUAL_STRENGTH),
        **dict.fromkeys(_offsets(graph), _OFFSET_STRENGTH),
    }
    for node in graph.nodes:
        strength = strengths.get(node.output, 1.0)
        read = [moments[tensor] for tensor in node.inputs if tensor in moments]
        if not read:
            continue
        if node.op in _WEIGHTED:
            weight = params[node.inputs[_WEIGHTED[node.op]].node]
            moments[node.output] = _weighted(node, read[0], weight, strength)
            continue
        if node.op == "Deconvolution":
            moments[node.output] = _spread(node, read[0], params[node.inputs[1].node], strength)
            continue
        if node.op == "RNN":
            moments[node.output] = _STATES
            continue
        if node.op == "BatchNorm":
            gamma, mean, variance = (node.inputs[position].node for position in (1, 3, 4))
            params[gamma] = np.full(shapes[gamma], strength, np.float32)
            (channels,) = shapes[mean]
            normalized = read[0].channels(channels)
            params[mean], params[variance] = _rounded(normalized.mean), _rounded(normalized.variance)
            moments[node.output] = _Moments(np.zeros(channels), np.full(channels, strength**2))
            continue
        factors = [params[tensor.node] for tensor in node.inputs if tensor.node in params]
        is_scaled = node.op == "broadcast_mul" and len(read) == 1
        moments[node.output] = _scaled(read[0], factors) if is_scaled else _through(node, read)
    return params


def _residual_branches(graph: Graph) -> set[Tensor]:
    """The summand of each sum that took more steps to compute; the other is the shortcut."""
    depth: dict[Tensor, int] = {}
    for node in graph.nodes:
        depth[node.output] = 1 + max((depth.get(tensor, 0) for tensor in node.inputs), default=0)
    return {max(node.inputs, key=lambda tensor: depth.get(tensor, 0)) for node in graph.nodes if node.op in ADDITIONS}


def _offsets(graph: Graph) -> Iterator[Tensor]:
    """The results of the layers that say where deformable convolutions read, and how much each place counts."""

    def is_weighted(tensor: Tensor) -> bool:
        producer = graph.producer(tensor)
        return producer is not None and producer.op in _WEIGHTED

    for node in graph.nodes:
        yield from _nearest(graph, node.inputs[1 : _DEFORMABLE.get(node.op, 0)], is_weighted)


def _nearest(graph: Graph, tensors: Iterable[Tensor], wanted: Callable[[Tensor], bool]) -> Iterator[Tensor]:
    """The wanted ones of some tensors and, where one is not, of what it is computed from."""
    waiting, visited = list(tensors), set[Tensor]()
    while waiting:
        tensor = waiting.pop()
        if tensor in visited:
            continue
        visited.add(tensor)
        if wanted(tensor):
            yield tensor
        elif (producer := graph.producer(tensor)) is not None:
            waiting.extend(producer.inputs)


@dataclass(frozen=True)
class _Moments:
    """Expected mean and variance of a tensor, per channel (or one value for all)."""

    mean: np.ndarray
    variance: np.ndarray

    def channels(self, count: int) -> _Moments:
        """The moments of ``count`` channels; flattened feature maps repeat each channel's."""
        if count % self.mean.size == 0:
            repeats = count // self.mean.size
            return _Moments(np.repeat(self.mean, repeats), np.repeat(self.variance, repeats))
        return _Moments(np.full(count, self.mean.mean()), np.full(count, self.variance.mean()))


# States lie between -1 and 1, those of weights like these near 0.
_STATES = _Moments(np.zeros(1), np.full(1, 0.05))


def _initial(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    if name.endswith("gamma"):
        return np.ones(shape, np.float32)
    if len(shape) < 2:
        return np.zeros(shape, np.float32)
    return _generator(name, shape, seed).standard_normal(shape, np.float32)


def _uniform(name: str, shape: tuple[int, ...], seed: int, bound: float) -> np.ndarray:
    values = _generator(name, shape, seed).random(shape, np.float32)
    return (values * 2 - 1) * np.float32(bound)


def _generator(name: str, shape: tuple[int, ...], seed: int) -> np.random.Generator:
    digest = hashlib.sha256(f"{seed}:{name}:{shape}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))


def _recurrent_parameters(graph: Graph, shapes: Shapes) -> dict[str, int]:
    """The parameters of recurrent layers, by name, with the width of their state."""
    widths: dict[str, int] = {}
    for node in graph.nodes:
        if node.op == "RNN":
            for tensor in _nearest(graph, node.inputs[1:2], lambda tensor: tensor.node in shapes):
                widths[tensor.node] = max(integer(node, "state_size", 1), 1)
    return widths


def _weighted(node: Node, read: _Moments, weight: np.ndarray, strength: float) -> _Moments:
    """Scale and orthogonalize standard normal weights in place; returns the moments of the output."""
    outputs, per_group = weight.shape[:2]
    groups = integer(node, "num_group", 1)
    inputs = read.channels(groups * per_group)
    group = np.arange(outputs) // (outputs // groups)
    means, variances = (values.reshape(groups, per_group) for values in (inputs.mean, inputs.variance))
    taps = weight.reshape(outputs, per_group, -1)
    mean, variance = np.empty(outputs), np.empty(outputs)
    step = max(1, _BLOCK // taps[0].size)
    for block in (slice(start, start + step) for start in range(0, outputs, step)):
        values, expected = taps[block].astype(np.float64), means[group[block], :, None]
        if per_group > 1:
            # Tap by tap, so that it holds at padded borders, too.
            share = (values * expected).sum(axis=1, keepdims=True) / np.maximum((expected**2).sum(axis=1), 1e-30)[
                :, None
            ]
            values -= _rounded(share) * expected
        taps[block] = values
        mean[block] = (values * expected).sum(axis=(1, 2))
        variance[block] = ((values**2).sum(axis=2) * variances[group[block]]).sum(axis=1)
    scale = float(_rounded(np.array(strength / math.sqrt(float(variance.mean()) or 1.0))))
    weight *= np.float32(scale)
    return _Moments(mean * scale, variance * scale**2)


def _spread(node: Node, read: _Moments, weight: np.ndarray, strength: float) -> _Moments:
    """Scale the standard normal weights of a transposed convolution in place; returns the moments of the output."""
    groups = integer(node, "num_group", 1)
    inputs, outputs = read.channels(len(weight)), weight.shape[1] * groups
    # Each value meets the taps of the kernel that fall on it, and those only.
    taps = math.prod(weight.shape[2:]) / math.prod(integers(node, "stride") or (1,))
    power = float((inputs.variance + inputs.mean**2).sum()) * taps / groups
    weight *= np.float32(float(_rounded(np.array(strength / math.sqrt(power or 1.0)))))
    return _Moments(np.zeros(outputs), np.full(outputs, strength**2))


def _scaled(read: _Moments, factors: list[np.ndarray]) -> _Moments:
    """The moments of a product with a parameter that has one value, or one for each channel."""
    if len(factors) != 1 or factors[0].size not in (1, max(factors[0].shape)) or factors[0].ndim != 4:
        return read
    factor = factors[0].ravel().astype(np.float64)
    if 1 not in (factor.size, read.mean.size) and factor.size != read.mean.size:
        return read
    return _Moments(read.mean * factor, read.variance * factor**2)


def _through(node: Node, read: list[_Moments]) -> _Moments:
    first = read[0]
    if activation_kind(node) in ("relu", "relu6"):
        return _rectified(first)
    if activation_kind(node) == "sigmoid" or node.op == "sigmoid":
        return _squashed(first)
    if node.op == "_plus_scalar":
        return _Moments(first.mean + number(node, "scalar", 0.0), first.variance)
    if node.op in ("_mul_scalar", "_div_scalar"):
        scalar = number(node, "scalar", 1.0)
        factor = scalar if node.op == "_mul_scalar" else 1 / (scalar or 1.0)
        return _Moments(first.mean * factor, first.variance * factor**2)
    if node.op == "ones_like":
        return _Moments(np.ones(1), np.zeros(1))
    if len(read) == 2 and (node.op in ADDITIONS or node.op in _PRODUCTS):
        # The summands of a residual block are nearly independent, and so are the factors of an attention mask.
        count = max(first.mean.size, read[1].mean.size)
        first, second = first.channels(count), read[1].channels(count)
        if node.op in ADDITIONS:
            return _Moments(first.mean + second.mean, first.variance + second.variance)
        spread = first.variance * second.mean**2 + second.variance * first.mean**2
        return _Moments(first.mean * second.mean, first.variance * second.variance + spread)
    if node.op == "L2Normalization" and node.attrs.get("mode") == "channel":
        power = float((first.mean**2 + first.variance).sum()) or 1.0
        return _Moments(first.mean / math.sqrt(power), first.variance / power)
    if node.op == "Concat":
        return _Moments(np.concatenate([part.mean for part in read]), np.concatenate([part.variance for part in read]))
    return first


def _rectified(read: _Moments) -> _Moments:
    """The moments of max(0, x) for normally distributed x."""
    deviation = np.sqrt(read.variance) + 1e-12
    ratio = read.mean / deviation
    density = np.exp(-0.5 * ratio**2) / math.sqrt(2 * math.pi)
    below = 0.5 * (1 + _erf(ratio / math.sqrt(2)))
    mean = read.mean * below + deviation * density
    square = (read.mean**2 + read.variance) * below + read.mean * deviation * density
    return _Moments(mean, np.maximum(square - mean**2, 0.0))


def _squashed(read: _Moments) -> _Moments:
    """The moments of the logistic function of normally distributed x, by the trapezoidal rule."""
    places = np.linspace(-5, 5, _PLACES)
    shares = np.exp(-0.5 * places**2)
    shares /= shares.sum()
    values = 1 / (1 + np.exp(-(read.mean[:, None] + np.sqrt(read.variance)[:, None] * places)))
    mean: np.ndarray = values @ shares
    return _Moments(mean, np.maximum(values**2 @ shares - mean**2, 0.0))


def _rounded(values: np.ndarray) -> np.ndarray:
    """Values rounded to eight significant bits, so that sums with other last bits on other CPUs give the same."""
    mantissa, exponent = np.frexp(values)
    rounded: np.ndarray = np.ldexp(np.round(mantissa * 256) / 256, exponent)
    return rounded.astype(np.float32)
