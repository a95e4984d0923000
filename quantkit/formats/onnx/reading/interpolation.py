"""Interpolation along axes as products with constant matrices, for what the engine cannot interpolate by itself.

After the ONNX operator specification (Resize) and its reference implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np

from quantkit.formats.onnx.reading.construction import Construction, transposed
from quantkit.formats.onnx.reading.values import Computed, OnnxNode, Refused, Shape

_MOST_REACH = 1024

# The most pixels by which a scale may miss the ratio of the sizes.
_EXACT = 1e-4


@dataclass(frozen=True)
class Interpolation:
    """How values between others follow from them.

    ``coordinates`` is ONNX's transformation of places in the result to places in the input; ``cubic`` the coefficient
    of a cubic interpolation, None for a linear one; ``outside`` whether values beyond the edge, which repeat those
    there, count; ``smooth`` whether what is shrunk is averaged.
    """

    coordinates: str
    cubic: Optional[float]
    outside: bool
    smooth: bool


def interpolated(
    state: Construction, node: OnnxNode, data: Computed, shape: Shape, ratios: Sequence[float], how: Interpolation
) -> None:
    """Resize the spatial axes, one after the other, as the node's result.

    Args:
        state: the graph under construction.
        node: the enlargement.
        data: what it reads.
        shape: that of the result.
        ratios: of the spatial axes.
        how: the interpolation.

    Raises:
        Refused: the coordinates are unknown, or a matrix would be out of proportion to the file.
    """
    rank = len(shape)
    for axis, ratio in enumerate(ratios, 2):
        extent, count = data.shape[axis], shape[axis]
        state.budget.take(32 * extent * count)
        matrix = _matrix(extent, count, ratio, how)
        if extent == count and np.array_equal(matrix, np.eye(count)):
            continue
        order = (*(each for each in range(rank) if each != axis), axis)
        turned = transposed(state, node, data, order, f"last{axis}")
        weight = state.parameter(f"{node.name}_weight{axis}", matrix)
        product = state.step(
            node, f"product{axis}", "FullyConnected", [turned.tensor, weight], (*turned.shape[:-1], count),
            num_hidden=count, no_bias=True, flatten=False,
        )  # fmt: skip
        back = tuple(range(axis)), tuple(range(axis, rank - 1))
        data = transposed(state, node, product, (*back[0], rank - 1, *back[1]), f"resized{axis}")
    state.alias(node, data)


def _matrix(extent: int, count: int, ratio: float, how: Interpolation) -> np.ndarray:
    """The share of each of ``extent`` values in each of ``count`` results, of shape (count, extent)."""
    places = _places(extent, count, ratio, how.coordinates)
    # Smoothing widens the kernel as much as the image shrinks.
    width = min(ratio, 1.0) if how.smooth else 1.0
    reach = int(np.ceil((1 if how.cubic is None else 2) / width)) + 1
    if reach > _MOST_REACH:
        raise Refused(f"it averages {2 * reach} values; {2 * _MOST_REACH} are the most")
    matrix, rows = np.zeros((count, extent)), np.arange(count)
    for offset in range(-reach, reach + 1):
        columns = np.floor(places).astype(np.int64) + offset
        shares = _kernel((columns - places) * width, how.cubic)
        if not how.outside:
            shares = np.where((columns >= 0) & (columns < extent), shares, 0.0)
        np.add.at(matrix, (rows, columns.clip(0, extent - 1)), shares)
    if how.smooth or not how.outside:
        with np.errstate(all="ignore"):
            matrix /= matrix.sum(1, keepdims=True)
    return matrix


def _kernel(distance: np.ndarray, cubic: Optional[float]) -> np.ndarray:
    """The weight of a value at a distance; the cubic one after Keys 1981, "Cubic Convolution Interpolation"."""
    x = np.abs(distance)
    if cubic is None:
        return np.asarray(np.clip(1 - x, 0, 1))
    near = ((cubic + 2) * x - (cubic + 3)) * x**2 + 1
    far = ((cubic * x - 5 * cubic) * x + 8 * cubic) * x - 4 * cubic
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _places(extent: int, count: int, ratio: float, coordinates: str) -> np.ndarray:
    """The place in the input of each value of the result."""
    target = np.arange(count, dtype=np.float64)
    length = length_of(extent, count, ratio)
    if coordinates == "align_corners":
        return target * (extent - 1) / (length - 1) if length != 1 else target * 0
    if coordinates == "asymmetric":
        return target / ratio
    if coordinates == "pytorch_half_pixel" and length == 1:
        return target * 0
    if coordinates in ("half_pixel", "pytorch_half_pixel"):
        return (target + 0.5) / ratio - 0.5
    if coordinates == "half_pixel_symmetric":
        return extent / 2 * (1 - count / length) + (target + 0.5) / ratio - 0.5
    raise Refused(f"its coordinates are {coordinates!r}")


def length_of(extent: int, count: int, ratio: float) -> float:
    """The size of a resized axis before it is rounded down to ``count``, which it is where only arithmetic differs."""
    length = ratio * extent
    return count if abs(length - count) <= _EXACT else length
