"""Pooling. After the ONNX operator specification and MXNet's src/operator/nn/pooling-inl.h."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import prod
from typing import Optional

import numpy as np

from quantkit.formats.onnx.reading.construction import Attr, Construction, Converter
from quantkit.formats.onnx.reading.dilated import behind, max_of_places, mean_of_places
from quantkit.formats.onnx.reading.values import Computed, OnnxNode, Refused, Shape, shown
from quantkit.formats.onnx.reading.windows import Windows, padded, windows_of

# The lowest value, in place of minus infinity, which MXNet's parameters cannot express.
_LOWEST = float(np.finfo(np.float32).min)


def _windows(node: OnnxNode, data: Computed) -> Windows:
    kernel = node.integers("kernel_shape")
    if kernel is None or len(data.shape) not in (3, 4, 5):
        raise Refused(f"it has no window, or its input {shown(data.shape)} no spatial axes")
    windows = windows_of(node, data.shape[2:], kernel)
    spans = [(size - 1) * gap + 1 for size, gap in zip(kernel, windows.dilations)]
    if any(max(pads) >= span for *pads, span in zip(windows.begin, windows.end, spans)):
        raise Refused(f"its padding {windows.begin + windows.end} is as large as its window")
    if any(node.outputs[1:]):
        raise Refused("it puts out indices")
    return windows


def _convention(windows: Windows, extents: Shape) -> Optional[str]:
    """MXNet's rounding of the number of windows that gives the right result with symmetric padding; None if neither.

    What a window covers beyond the image then does not matter: neither a maximum nor an average includes it.
    """
    for name, up in (("valid", False), ("full", True)):
        rooms = [x + 2 * pad - size for x, pad, size in zip(extents, windows.begin, windows.kernel)]
        counts = tuple((-(-r // s) if up else r // s) + 1 for r, s in zip(rooms, windows.strides))
        if counts == windows.result and min(rooms) >= 0:
            return name
    return None


def _finish(
    state: Construction, node: OnnxNode, data: Computed, windows: Windows, kind: str, convention: str, included: bool
) -> None:
    state.finish(
        node,
        "Pooling",
        [data.tensor],
        (*data.shape[:2], *windows.result),
        **_attrs(windows, kind, convention, included),
    )


def _attrs(windows: Windows, kind: str, convention: str, included: bool) -> dict[str, Attr]:
    attrs: dict[str, Attr] = {
        "pool_type": kind, "kernel": windows.kernel, "stride": windows.strides, "pad": windows.begin,
        "pooling_convention": convention,
    }  # fmt: skip
    return attrs if kind == "max" else {**attrs, "count_include_pad": str(included)}


def _outside(windows: Windows, extents: Shape) -> tuple[Windows, Shape]:
    """The same windows without padding, and the padding that they then need behind the image."""
    none = (0,) * len(extents)
    return replace(windows, begin=none, end=none), behind(windows, extents)


def _max_pool(state: Construction, node: OnnxNode) -> None:
    data = state.computed(node)
    windows = _windows(node, data)
    if windows.dilated:
        max_of_places(state, node, data, windows, _LOWEST)
        return
    convention = _convention(windows, data.shape[2:])
    if convention is None:
        inner, more = _outside(windows, data.shape[2:])
        data = padded(state, node, data, windows.begin, more, _LOWEST)
        windows, convention = inner, "valid"
    _finish(state, node, data, windows, "max", convention, False)


def _average_pool(state: Construction, node: OnnxNode) -> None:
    """Averages over the image or, with ``count_include_pad``, over the padding, too; never beyond the padding.

    MXNet averages in the same way, so only asymmetric padding needs more: zeros around the image, and a factor per
    window that corrects the number of values.
    """
    data = state.computed(node)
    windows = _windows(node, data)
    included = bool(node.integer("count_include_pad", 0))
    extents = data.shape[2:]
    if windows.dilated:
        factor = _shares(state, windows, extents, included)
        mean_of_places(state, node, data, windows, factor / prod(windows.kernel))
        return
    convention = _convention(windows, extents)
    if convention is not None and (windows.symmetric or not included):
        _finish(state, node, data, windows, "avg", convention, included)
        return
    inner, more = _outside(windows, extents)
    whole = padded(state, node, data, windows.begin, more, 0.0)
    factor = _shares(state, windows, extents, included)
    if (factor == 1).all():
        _finish(state, node, whole, inner, "avg", "valid", True)
        return
    shape = (*data.shape[:2], *windows.result)
    means = state.step(node, "sum", "Pooling", [whole.tensor], shape, **_attrs(inner, "avg", "valid", True))
    scale = state.parameter(f"{node.name}_share", factor)
    state.finish(node, "broadcast_mul", [means.tensor, scale], shape)


def _shares(state: Construction, windows: Windows, extents: Shape, included: bool) -> np.ndarray:
    """The places of the window for each value that counts, for each window."""
    state.budget.take(8 * prod(windows.result) + 8 * sum(map(prod, zip(windows.result, windows.kernel))))
    factor = np.ones((1, 1, *windows.result))
    for axis, extent in enumerate(extents):
        low = 0 if included else windows.begin[axis]
        high = windows.begin[axis] + extent + (windows.end[axis] if included else 0)
        starts = np.arange(windows.result[axis]) * windows.strides[axis]
        places = starts[:, None] + np.arange(windows.kernel[axis]) * windows.dilations[axis]
        counts = ((places >= low) & (places < high)).sum(1).clip(1)
        others = [1] * (len(extents) - 1 - axis)
        factor = factor * (windows.kernel[axis] / counts).reshape(-1, *others)
    return factor


def _global_pool(kind: str, state: Construction, node: OnnxNode) -> None:
    data = state.computed(node)
    if len(data.shape) not in (3, 4, 5):
        raise Refused(f"its input {shown(data.shape)} has no spatial axes")
    shape = (*data.shape[:2], *[1] * (len(data.shape) - 2))
    state.finish(node, "Pooling", [data.tensor], shape, **whole_image(kind, len(shape) - 2))


def whole_image(kind: str, rank: int) -> dict[str, Attr]:
    """The attributes of a pooling over all spatial axes."""
    return {"global_pool": "True", "pool_type": kind, "kernel": (1,) * rank}


POOLING: Mapping[str, Converter] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalMaxPool": partial(_global_pool, "max"),
    "GlobalAveragePool": partial(_global_pool, "avg"),
}
