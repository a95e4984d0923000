"""Pooling over windows with gaps, which the engine lacks: over slices, one for each place of the window."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from quantkit.formats.onnx.reading.construction import Construction
from quantkit.formats.onnx.reading.values import Computed, OnnxNode, Refused, Shape
from quantkit.formats.onnx.reading.windows import Windows, padded

_MOST_PLACES = 128


def max_of_places(state: Construction, node: OnnxNode, data: Computed, windows: Windows, lowest: float) -> None:
    """The largest value of each window; padding is ``lowest``."""
    first, *more = _places(state, node, data, windows, lowest)
    for number, place in enumerate(more[:-1]):
        first = state.step(node, f"max{number}", "broadcast_maximum", [first.tensor, place.tensor], first.shape)
    state.finish(node, "broadcast_maximum", [first.tensor, more[-1].tensor], first.shape)


def mean_of_places(state: Construction, node: OnnxNode, data: Computed, windows: Windows, factor: np.ndarray) -> None:
    """The mean of each window.

    Args:
        state: the graph under construction.
        node: the pooling.
        data: what it reads.
        windows: its windows.
        factor: by which the sum of each window is multiplied, with two axes of one before the spatial axes.
    """
    total, *more = _places(state, node, data, windows, 0.0)
    for number, place in enumerate(more):
        total = state.step(node, f"sum{number}", "elemwise_add", [total.tensor, place.tensor], total.shape)
    share = state.parameter(f"{node.name}_share", factor)
    state.finish(node, "broadcast_mul", [total.tensor, share], total.shape)


def _places(state: Construction, node: OnnxNode, data: Computed, windows: Windows, filling: float) -> list[Computed]:
    """What lies under each place of the window, for all windows."""
    if not 1 < prod(windows.kernel) <= _MOST_PLACES:
        raise Refused(f"its dilated window has {prod(windows.kernel)} places; 2 to {_MOST_PLACES} are read")
    whole = padded(state, node, data, windows.begin, behind(windows, data.shape[2:]), filling)
    shape = (*data.shape[:2], *windows.result)
    ends = [(count - 1) * stride + 1 for count, stride in zip(windows.result, windows.strides)]
    slices = []
    for number, place in enumerate(product(*map(range, windows.kernel))):
        begin = [step * dilation for step, dilation in zip(place, windows.dilations)]
        limits = (None, None, *begin), (None, None, *map(sum, zip(begin, ends)))
        first, last = map(str, limits)
        steps = (1, 1, *windows.strides)
        slices.append(
            state.step(node, f"place{number}", "slice", [whole.tensor], shape, begin=first, end=last, step=steps)
        )
    return slices


def behind(windows: Windows, extents: Shape) -> Shape:
    """The padding that the last windows need behind an image that is padded before it."""
    return tuple(
        max(0, (count - 1) * stride + (size - 1) * dilation + 1 - extent - before)
        for count, stride, size, dilation, extent, before in zip(
            windows.result, windows.strides, windows.kernel, windows.dilations, extents, windows.begin
        )
    )
