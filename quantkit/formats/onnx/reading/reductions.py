"""Reductions over axes, and the places of extremes. After the ONNX operator specification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Optional

from quantkit.formats.onnx.reading.construction import Construction, Converter, reshaped
from quantkit.formats.onnx.reading.pooling import whole_image
from quantkit.formats.onnx.reading.values import Computed, OnnxNode, Refused, Shape, axes_of, axis_of, in_batch


@dataclass(frozen=True)
class _Reduction:
    """The axes of a reduction, the shape of its result with them as ones, and its shape."""

    axes: Shape
    kept: Shape
    shape: Shape

    @property
    def keepdims(self) -> bool:
        return self.kept == self.shape


def _reduction(state: Construction, node: OnnxNode, data: Computed) -> Optional[_Reduction]:
    """What a reduction is over; None if it leaves the data as they are."""
    rank = len(data.shape)
    listed = state.integers(node, 1, "axes")
    if not listed:
        if node.integer("noop_with_empty_axes", 0):
            return None
        listed = tuple(range(rank))
    axes, keep = tuple(sorted(axes_of(listed, rank))), bool(node.integer("keepdims", 1))
    if any(in_batch(data.shape[axis]) for axis in axes):
        raise Refused("it computes over all images of a batch")
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(data.shape))
    shape = kept if keep else tuple(extent for axis, extent in enumerate(data.shape) if axis not in axes)
    return _Reduction(axes, kept, shape)


def _reduce(op: str, state: Construction, node: OnnxNode) -> None:
    data = state.computed(node)
    over = _reduction(state, node, data)
    if over is None:
        state.alias(node, data)
        return
    pooling = {"mean": "avg", "max": "max"}.get(op)
    if pooling and len(data.shape) == 4 and over.axes == (2, 3):
        # The result is the same, and the engine has an INT8 kernel for pooling.
        if over.keepdims:
            state.finish(node, "Pooling", [data.tensor], over.kept, **whole_image(pooling, 2))
        else:
            pooled = state.step(node, "pool", "Pooling", [data.tensor], over.kept, **whole_image(pooling, 2))
            reshaped(state, node, pooled, over.shape)
        return
    state.finish(node, op, [data.tensor], over.shape, axis=over.axes, keepdims=over.keepdims)


def _sum_of(before: str, after: str, state: Construction, node: OnnxNode) -> None:
    """A sum with an operator of each value before it, or one of its result behind it."""
    data = state.computed(node)
    over = _reduction(state, node, data)
    if over is None:
        raise Refused("it names no axes to sum over")
    if before:
        data = state.step(node, before, before, [data.tensor], data.shape)
    if not after:
        state.finish(node, "sum", [data.tensor], over.shape, axis=over.axes, keepdims=over.keepdims)
        return
    total = state.step(node, "total", "sum", [data.tensor], over.shape, axis=over.axes, keepdims=over.keepdims)
    state.finish(node, after, [total.tensor], over.shape)


def _log_sum_exp(state: Construction, node: OnnxNode) -> None:
    """Relative to the largest value, so that no exponential overflows."""
    data = state.computed(node)
    over = _reduction(state, node, data)
    if over is None:
        raise Refused("it names no axes to sum over")
    most = state.step(node, "most", "max", [data.tensor], over.kept, axis=over.axes, keepdims=True)
    below = state.step(node, "below", "broadcast_sub", [data.tensor, most.tensor], data.shape)
    powers = state.step(node, "powers", "exp", [below.tensor], data.shape)
    total = state.step(node, "total", "sum", [powers.tensor], over.kept, axis=over.axes, keepdims=True)
    log = state.step(node, "log", "log", [total.tensor], over.kept)
    if over.keepdims:
        state.finish(node, "elemwise_add", [log.tensor, most.tensor], over.shape)
    else:
        whole = state.step(node, "whole", "elemwise_add", [log.tensor, most.tensor], over.kept)
        reshaped(state, node, whole, over.shape)


def _place(least: bool, state: Construction, node: OnnxNode) -> None:
    """The place of the largest or least value along an axis: the first, or the last of equal ones."""
    data = state.computed(node)
    axis, keep = axis_of(node.integer("axis", 0), len(data.shape)), bool(node.integer("keepdims", 1))
    extent = data.shape[axis]
    if in_batch(extent):
        raise Refused("it searches all images of a batch")
    shape = data.shape[:axis] + ((1,) if keep else ()) + data.shape[axis + 1 :]
    if least:
        data = state.step(node, "negative", "negative", [data.tensor], data.shape)
    if node.integer("select_last_index", 0):
        back = _backwards(state, node, data, axis)
        place = state.step(node, "place", "argmax", [back.tensor], shape, axis=axis, keepdims=keep)
        index = state.finish(node, "_rminus_scalar", [place.tensor], shape, scalar=float(extent - 1))
    else:
        index = state.finish(node, "argmax", [data.tensor], shape, axis=axis, keepdims=keep)
    state.values[node.outputs[0]] = Computed(index.tensor, index.shape, integral=True)


def _backwards(state: Construction, node: OnnxNode, data: Computed, axis: int) -> Computed:
    """The data with an axis in reverse order."""
    rank = len(data.shape)
    begin = str(tuple(data.shape[axis] - 1 if each == axis else None for each in range(rank)))
    steps = tuple(-1 if each == axis else 1 for each in range(rank))
    return state.step(
        node, "backwards", "slice", [data.tensor], data.shape, begin=begin, end=str((None,) * rank), step=steps
    )


REDUCTIONS: Mapping[str, Converter] = {
    "ReduceMean": partial(_reduce, "mean"),
    "ReduceSum": partial(_reduce, "sum"),
    "ReduceMax": partial(_reduce, "max"),
    "ReduceMin": partial(_reduce, "min"),
    "ReduceL1": partial(_sum_of, "abs", ""),
    "ReduceL2": partial(_sum_of, "square", "sqrt"),
    "ReduceSumSquare": partial(_sum_of, "square", ""),
    "ReduceLogSum": partial(_sum_of, "", "log"),
    "ReduceLogSumExp": _log_sum_exp,
    "ArgMax": partial(_place, False),
    "ArgMin": partial(_place, True),
}
