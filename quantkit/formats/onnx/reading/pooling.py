"""Pooling and reductions over axes. After the ONNX operator specification and MXNet's src/operator/nn/pooling-inl.h."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Optional

import numpy as np

from quantkit.formats.onnx.reading.construction import Attr, Construction, Converter, reshaped
from quantkit.formats.onnx.reading.values import BATCH, Computed, OnnxNode, Refused, Shape, axes_of, axis_of, shown
from quantkit.formats.onnx.reading.windows import Windows, padded, windows_of

# The lowest value, in place of minus infinity, which MXNet's parameters cannot express.
_LOWEST = float(np.finfo(np.float32).min)


def _windows(node: OnnxNode, data: Computed) -> Windows:
    kernel = node.integers("kernel_shape")
    if kernel is None or len(data.shape) not in (3, 4, 5):
        raise Refused(f"it has no window, or its input {shown(data.shape)} no spatial axes")
    windows = windows_of(node, data.shape[2:], kernel)
    if set(windows.dilations) != {1} or node.integer("storage_order", 0) or any(node.outputs[1:]):
        raise Refused("its windows are dilated, or it puts out indices")
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
    behind = tuple(
        max(0, (count - 1) * stride + size - extent - before)
        for count, stride, size, extent, before in zip(
            windows.result, windows.strides, windows.kernel, extents, windows.begin
        )
    )
    none = (0,) * len(extents)
    return Windows(windows.kernel, windows.strides, windows.dilations, none, none, windows.result), behind


def _max_pool(state: Construction, node: OnnxNode) -> None:
    data = state.computed(node)
    windows = _windows(node, data)
    convention = _convention(windows, data.shape[2:])
    if convention is None:
        inner, behind = _outside(windows, data.shape[2:])
        data = padded(state, node, data, windows.begin, behind, _LOWEST)
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
    convention = _convention(windows, extents)
    if convention is not None and (windows.symmetric or not included):
        _finish(state, node, data, windows, "avg", convention, included)
        return
    inner, behind = _outside(windows, extents)
    whole = padded(state, node, data, windows.begin, behind, 0.0)
    state.budget.take(8 * prod(windows.result))
    factor = np.ones((1, 1, *windows.result))
    for axis, extent in enumerate(extents):
        low = 0 if included else windows.begin[axis]
        high = windows.begin[axis] + extent + (windows.end[axis] if included else 0)
        starts = np.arange(windows.result[axis]) * windows.strides[axis]
        counts = np.minimum(starts + windows.kernel[axis], high) - np.maximum(starts, low)
        others = [1] * (len(extents) - 1 - axis)
        factor = factor * (windows.kernel[axis] / counts).reshape(-1, *others)
    if (factor == 1).all():
        _finish(state, node, whole, inner, "avg", "valid", True)
        return
    shape = (*data.shape[:2], *windows.result)
    means = state.step(node, "sum", "Pooling", [whole.tensor], shape, **_attrs(inner, "avg", "valid", True))
    scale = state.parameter(f"{node.name}_share", factor)
    state.finish(node, "broadcast_mul", [means.tensor, scale], shape)


def _global_pool(kind: str, state: Construction, node: OnnxNode) -> None:
    data = state.computed(node)
    if len(data.shape) not in (3, 4, 5):
        raise Refused(f"its input {shown(data.shape)} has no spatial axes")
    shape = (*data.shape[:2], *[1] * (len(data.shape) - 2))
    state.finish(node, "Pooling", [data.tensor], shape, **_global(kind, len(shape) - 2))


def _global(kind: str, rank: int) -> dict[str, Attr]:
    return {"global_pool": "True", "pool_type": kind, "kernel": (1,) * rank}


def _reduce(op: str, state: Construction, node: OnnxNode) -> None:
    data, rank = state.computed(node), len(state.computed(node).shape)
    listed = state.integers(node, 1, "axes")
    if not listed:
        if node.integer("noop_with_empty_axes", 0):
            state.alias(node, data)
            return
        listed = tuple(range(rank))
    axes, keep = tuple(sorted(axes_of(listed, rank))), bool(node.integer("keepdims", 1))
    if any(data.shape[axis] % BATCH == 0 for axis in axes):
        raise Refused("it computes over all images of a batch")
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(data.shape))
    shape = kept if keep else tuple(extent for axis, extent in enumerate(data.shape) if axis not in axes)
    pooling = {"mean": "avg", "max": "max"}.get(op)
    if pooling and rank == 4 and axes == (2, 3):
        # The result is the same, and the engine has an INT8 kernel for pooling.
        if keep:
            state.finish(node, "Pooling", [data.tensor], kept, **_global(pooling, 2))
        else:
            pooled = state.step(node, "pool", "Pooling", [data.tensor], kept, **_global(pooling, 2))
            reshaped(state, node, pooled, shape)
        return
    state.finish(node, op, [data.tensor], shape, axis=axes, keepdims=keep)


def _arg_max(state: Construction, node: OnnxNode) -> None:
    data = state.computed(node)
    axis, keep = axis_of(node.integer("axis", 0), len(data.shape)), bool(node.integer("keepdims", 1))
    if node.integer("select_last_index", 0) or data.shape[axis] % BATCH == 0:
        raise Refused("it takes the last of equal values, or searches all images of a batch")
    shape = data.shape[:axis] + ((1,) if keep else ()) + data.shape[axis + 1 :]
    index = state.finish(node, "argmax", [data.tensor], shape, axis=axis, keepdims=keep)
    state.values[node.outputs[0]] = Computed(index.tensor, index.shape, integral=True)


POOLING: Mapping[str, Converter] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalMaxPool": partial(_global_pool, "max"),
    "GlobalAveragePool": partial(_global_pool, "avg"),
    "ReduceMean": partial(_reduce, "mean"),
    "ReduceSum": partial(_reduce, "sum"),
    "ReduceMax": partial(_reduce, "max"),
    "ReduceMin": partial(_reduce, "min"),
    "ArgMax": _arg_max,
}
