"""The sums of an INT8 layer: products of integers, added up without loss as its kernel does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Optional

import numpy as np

from quantkit.ir.fused_layer import FusedLayer
from quantkit.quantization.arithmetic import LIMITS, QuantParams
from quantkit.quantization.layer_weights import WeightRounding, layer_integers
from quantkit.quantization.simulation.operators import BATCH, operator_session

# Below this float32, in which the engine computes, has every integer.
_EXACT = 2**24

# Sums at once, of 8 bytes each.
_BLOCK = 2**20


@dataclass(frozen=True, eq=False)
class IntegerWeights:
    """A layer's weights as int8, (channels, ...), and the real value of one step of each channel, float32."""

    integers: np.ndarray
    scale: np.ndarray

    @property
    def real(self) -> np.ndarray:
        """The weights that the integers stand for, float32."""
        return np.asarray(self.integers * self.scale.reshape(-1, *(1,) * (self.integers.ndim - 1)), np.float32)


def integer_weights(weight: np.ndarray, rounding: WeightRounding) -> IntegerWeights:
    """What a lowered layer multiplies by, given its float weights and its ``QuantizedGraph.weight_rounding``."""
    return IntegerWeights(*layer_integers(weight, rounding))


def integer_layer(
    layer: FusedLayer, inputs: np.ndarray, params: QuantParams, weights: IntegerWeights, bias: Optional[np.ndarray]
) -> np.ndarray:
    """A layer's result before its sum and its activation, float32: exact sums in units of their step, and the bias.

    Args:
        layer: the layer.
        inputs: what it reads, multiples of the scale of ``params``, (images, ...).
        params: the integers that these are.
        weights: the layer's.
        bias: float32, (channels,), or None.
    """
    data = inputs if layer.is_convolution else inputs.reshape(len(inputs), -1)
    scale = np.float32(params.scale)
    core = replace(layer.core, attrs={**layer.core.attrs, "no_bias": "True"})
    largest = max(abs(limit - params.zero_point) for limit in LIMITS[params.dtype])
    parts = list(exact_parts(weights.integers, largest))
    sessions = [
        operator_session(
            core,
            ("data", "weight"),
            {"data": (BATCH, *_channels(data[:1], part, layer.groups).shape[1:])},
            {"weight": part.weight},
        )
        for part in parts
    ]
    result = np.empty(0, np.float32)
    for start in range(0, len(data), BATCH):
        integers = data[start : start + BATCH] / scale
        np.rint(integers, out=integers)
        sums = [
            session.run({"data": _channels(integers, part, layer.groups)})[0] for session, part in zip(sessions, parts)
        ]
        # Each is exact, their sum in float32 may not be.
        total = sums[0] if len(sums) == 1 else np.sum(sums, axis=0, dtype=np.float64).astype(np.float32)
        per_channel = (-1, *(1,) * (total.ndim - 2))
        if not len(result):
            result = np.empty((len(data), *total.shape[1:]), np.float32)
        here = result[start : start + BATCH]
        np.multiply(total, (weights.scale * scale).reshape(per_channel), out=here)
        if bias is not None:
            here += bias.reshape(per_channel)
    return result


@dataclass(frozen=True, eq=False)
class Part:
    """Weights of some input channels of each group, float32; others of these channels are 0."""

    channels: slice
    weight: np.ndarray


def exact_parts(weight: np.ndarray, largest: int) -> Iterator[Part]:
    """Weights that add up to ``weight``, each of which float32 multiplies and adds up exactly in whatever order.

    Args:
        weight: int8, (channels, inputs of a group, ...).
        largest: the largest magnitude of an input.
    """
    flat = weight.reshape(len(weight), -1)
    positions = flat.shape[1] // weight.shape[1]
    start = 0
    while start < flat.shape[1]:
        stop = start + int(np.searchsorted(_peaks(flat[:, start:]) * largest, _EXACT))
        if stop < flat.shape[1] and stop - stop % positions > start:
            # Whole channels, so that no other part needs them too.
            stop -= stop % positions
        channels = slice(start // positions, -(-stop // positions))
        kept = weight[:, channels].astype(np.float32)
        inputs = kept.reshape(len(weight), -1)
        inputs[:, : start - channels.start * positions] = 0
        inputs[:, stop - channels.start * positions :] = 0
        yield Part(channels, kept)
        start = stop


def _peaks(flat: np.ndarray) -> np.ndarray:
    """The sum of the magnitudes of the first inputs, the largest of all channels: int64, (inputs,)."""
    peaks = np.zeros(flat.shape[1], np.int64)
    rows = max(1, _BLOCK // flat.shape[1])
    for first in range(0, len(flat), rows):
        sums = np.abs(flat[first : first + rows]).cumsum(axis=1, dtype=np.int64)
        np.maximum(peaks, sums.max(axis=0), out=peaks)
    return peaks


def _channels(data: np.ndarray, part: Part, groups: int) -> np.ndarray:
    """The input channels of a part, those of all groups."""
    grouped = data.reshape(len(data), groups, -1, *data.shape[2:])[:, :, part.channels]
    return grouped.reshape(len(data), -1, *data.shape[2:])
