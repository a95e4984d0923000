"""How the weights of INT8 convolutions and dense layers become integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Optional

import numpy as np

from quantkit.quantization.reduced_range import rounded_in_pairs
from quantkit.quantization.weights import engine_integers, multiples, per_channel_int8

RoundingKind = Literal["engine", "rows", "pairs"]


@dataclass(frozen=True, eq=False)
class WeightRounding:
    """How the weights of an INT8 layer become integers.

    Attributes:
        kind: ``engine``: the engine itself rounds them when it first runs. ``rows``: the largest weight of a channel
            becomes 127. ``pairs``: steps are as coarse as it takes, so that no two neighbours overflow 16 bits.
        scale: that of each channel, float32 (channels,), where the weights are multiples of it already; the engine
            reads it off the weights.
        groups: those of the convolution.
    """

    kind: RoundingKind
    scale: Optional[np.ndarray] = None
    groups: int = 1


def layer_integers(weight: np.ndarray, rounding: WeightRounding) -> tuple[np.ndarray, np.ndarray]:
    """The integers of a layer's weights, int8 of the shape of ``weight``, and the scales, float32 (channels,).

    Args:
        weight: float32, (channels, ...).
        rounding: the layer's.
    """
    if rounding.kind == "engine":
        return engine_integers(weight, groups=rounding.groups)
    rows = weight.reshape(len(weight), -1)
    if rounding.scale is not None:
        integers, scale = multiples(rows, rounding.scale), rounding.scale
    else:
        integers, scale = (rounded_in_pairs if rounding.kind == "pairs" else per_channel_int8)(rows)
    return integers.reshape(weight.shape), scale
