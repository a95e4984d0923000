"""Sums that saturate in 16 bits on processors without VNNI, predicted from the integers.

Without VNNI, oneDNN multiplies unsigned with signed bytes by VPMADDUBSW, which adds the products of two neighbouring
bytes and saturates the sum to 16 bits before it continues in 32 bits (oneDNN's developer guide, "Nuances of int8
computations", section 1.1). Neighbours are input channels 2i and 2i + 1 at one position of the kernel, and inputs
2i and 2i + 1 of dense layers. Depthwise convolutions multiply in wider types. oneDNN adds 128 to signed input, which
makes it unsigned, and compensates for it afterwards. Convolutions of signed input have weights with half as many
levels, so that nothing saturates (section 2); dense layers do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from quantkit.ir.fused_layer import FusedLayer
from quantkit.ir.operators import integer, integers
from quantkit.quantization.algorithms.patches import windows
from quantkit.quantization.arithmetic import DType
from quantkit.quantization.grouped_weights import has_groups_of_channels

_LOWEST, _HIGHEST = -(2**15), 2**15 - 1
_SHIFT = 128
# A pair of inputs with a smaller sum cannot saturate: the largest magnitude of a weight is 128.
_LEAST_INPUTS = -_LOWEST // 128
# The number of pair sums in memory at once.
_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class Overflow:
    """The share of pairs of products whose sum saturates without VNNI, over all images and positions, from 0 to 1.

    ``channels`` is the share of output channels where any sum saturates, ``worst`` the largest share in one channel.
    """

    share: float
    channels: float
    worst: float


class OverflowSums:
    """Running counts of one layer's pairs."""

    def __init__(self) -> None:
        """Start with nothing counted."""
        self._saturated = np.zeros(0, np.int64)
        self._pairs = 0

    def add(self, batch: Saturating) -> None:
        """Add the counts of a batch."""
        self._saturated = self._saturated + batch.counts if self._pairs else batch.counts
        self._pairs += batch.pairs

    def state(self) -> dict[str, np.ndarray]:
        """What has been counted: of each channel, int64 (channels,), and pairs."""
        return {"saturated": self._saturated, "pairs": np.array(self._pairs)}

    def merge(self, state: Mapping[str, np.ndarray]) -> None:
        """Add the ``state`` of others of the same layer."""
        if pairs := int(state["pairs"]):
            self._saturated = self._saturated + state["saturated"] if self._pairs else state["saturated"]
            self._pairs += pairs

    def result(self) -> Overflow:
        """The shares over all batches."""
        if not self._pairs:
            return Overflow(0.0, 0.0, 0.0)
        shares = self._saturated / self._pairs
        return Overflow(float(shares.mean()), float((shares > 0).mean()), float(shares.max()))


class Saturating(NamedTuple):
    """The number of saturating pairs in each output channel, the number of all pairs, and what each sum loses.

    ``lost`` has the shape of the output.
    """

    counts: np.ndarray
    pairs: int
    lost: np.ndarray


def can_saturate(layer: FusedLayer, dtype: DType) -> bool:
    """Whether a layer's sums can saturate for input of this type."""
    if not layer.is_convolution:
        return True
    groups = layer.groups
    adds_pairs = groups == 1 or has_groups_of_channels(integer(layer.core, "num_filter", 1), groups)
    return dtype == "uint8" and adds_pairs and len(integers(layer.core, "kernel")) == 2


def takes_blocks(layer: FusedLayer, weight: np.ndarray) -> bool:
    """Whether a layer is one for oneDNN's kernels that take channels in blocks: groups must be multiples of four.

    Other grouped convolutions have a kernel that adds in 32 bits on all processors, with weights of 8 bits.
    """
    sizes = (len(weight) // layer.groups, weight.shape[1])
    return not has_groups_of_channels(len(weight), layer.groups) or all(size % 4 == 0 for size in sizes)


def saturating(layer: FusedLayer, inputs: np.ndarray, weights: np.ndarray) -> Saturating:
    """Find the pairs that saturate.

    Args:
        layer: a layer for which ``can_saturate`` is true.
        inputs: its integer inputs, uint8, or also int8 for dense layers, of shape (images, channels, ...).
        weights: its integer weights, int8 of shape (channels, ...).
    """
    unsigned = inputs.astype(np.int32) + (_SHIFT if inputs.dtype == np.int8 else 0)
    weights = weights.astype(np.int32)
    if layer.is_convolution:
        seen = windows(layer, unsigned)
    else:
        seen = unsigned.reshape(len(inputs), -1, 1, 1, 1, 1)
        weights = weights.reshape(len(weights), -1, 1, 1)
    groups = zip(np.split(seen, layer.groups, axis=1), np.split(weights, layer.groups))
    losses = [_saturating_in_group(part, own) for part, own in groups]
    lost = np.concatenate([each.lost for each in losses], axis=1)
    counts = np.concatenate([each.counts for each in losses])
    return Saturating(counts, losses[0].pairs, lost if layer.is_convolution else lost[:, :, 0, 0])


def _saturating_in_group(seen: np.ndarray, weights: np.ndarray) -> Saturating:
    """What saturates, given what each output position sees, (images, inputs, height, width, *kernel)."""
    largest = seen.max(axis=(0, 2, 3, 4, 5))
    images, channels, height, width, *kernel = seen.shape
    counts = np.zeros(len(weights), np.int64)
    lost = np.zeros((images * height * width, len(weights)), np.int32)
    for first in range(0, channels - 1, 2):
        pair = weights[:, first : first + 2]
        most, least = (
            np.einsum("ocij,c->oij", part, largest[first : first + 2]) for part in (pair.clip(0), pair.clip(None, 0))
        )
        for row, column in np.ndindex(*kernel):
            risky = np.flatnonzero((most[:, row, column] > _HIGHEST) | (least[:, row, column] < _LOWEST))
            if not risky.size:
                continue
            values = seen[:, first : first + 2, :, :, row, column].transpose(0, 2, 3, 1).reshape(-1, 2)
            places = np.flatnonzero(values.sum(axis=1) > _LEAST_INPUTS)
            for some in _chunks(places, _AT_ONCE // risky.size):
                sums = values[some] @ pair[risky, :, row, column].T
                excess = sums - sums.clip(_LOWEST, _HIGHEST)
                counts[risky] += np.count_nonzero(excess, axis=0)
                lost[some[:, None], risky] += excess
    pairs = images * height * width * -(-channels // 2) * int(np.prod(kernel))
    return Saturating(counts, pairs, np.moveaxis(lost.reshape(images, height, width, -1), -1, 1))


def _chunks(places: np.ndarray, size: int) -> Iterator[np.ndarray]:
    step = max(size, 1)
    return (places[start : start + step] for start in range(0, len(places), step))
