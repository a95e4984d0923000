"""Operators that move values: shapes, axes, padding; and softmax, which works along axes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod

from quantkit.formats.onnx.reading.construction import Construction, Converter, reshaped, transposed, turns
from quantkit.formats.onnx.reading.values import (
    BATCH,
    Computed,
    OnnxNode,
    Refused,
    Shape,
    axes_of,
    axis_of,
    broadcast,
    elements,
    in_batch,
    shown,
)


def _reshape(state: Construction, node: OnnxNode) -> None:
    data, asked = state.computed(node), state.integers(node, 1)
    if asked is None:
        raise Refused("it names no shape")
    keep = not node.integer("allowzero", 0)
    target = [
        data.shape[axis_of(position, len(data.shape))] if extent == 0 and keep else extent
        for position, extent in enumerate(asked)
    ]
    if target.count(-1) > 1 or any(extent < -1 or extent == 0 for extent in target):
        raise Refused(f"it names the shape {asked}")
    total = prod(data.shape)
    rest = prod(extent for extent in target if extent != -1)
    if -1 in target:
        if total % rest == 0:
            target[target.index(-1)] = total // rest
        elif state.fixed is not None and total * state.fixed % (rest * BATCH) == 0:
            target[target.index(-1)] = total * state.fixed // (rest * BATCH)
    reshaped(state, node, data, _freed(state, data, target))


def _freed(state: Construction, data: Computed, target: list[int]) -> Shape:
    """A shape for one batch size as a shape for any: with the batch where the data have it, or in the first axis."""
    fixed = state.fixed
    if fixed is None or not target or in_batch(target[0]):
        return tuple(target)
    plain = [extent // BATCH * fixed if in_batch(extent) else extent for extent in target]
    before = [prod(plain[:place]) for place in range(len(plain))]
    alone = (place for place, extent in enumerate(plain) if (extent, before[place]) == (fixed, turns(state, data)))
    place = next(alone, 0)
    free = [*plain[:place], plain[place] // fixed * BATCH, *plain[place + 1 :]]
    return tuple(free) if prod(free) == prod(data.shape) else tuple(target)


def _flatten(state: Construction, node: OnnxNode) -> None:
    data, axis = state.computed(node), node.integer("axis", 1)
    axis = axis if axis == len(data.shape) else axis_of(axis, len(data.shape))
    reshaped(state, node, data, (prod(data.shape[:axis]), prod(data.shape[axis:])))


def _squeeze(state: Construction, node: OnnxNode) -> None:
    data, listed = state.computed(node), state.integers(node, 1, "axes")
    if listed is None:
        listed = tuple(axis for axis, extent in enumerate(data.shape) if extent == 1)
    axes = axes_of(listed, len(data.shape))
    if any(data.shape[axis] != 1 for axis in axes):
        raise Refused(f"it takes axes {axes} from {shown(data.shape)}, of which not all have one value")
    reshaped(state, node, data, [extent for axis, extent in enumerate(data.shape) if axis not in axes])


def _unsqueeze(state: Construction, node: OnnxNode) -> None:
    data, listed = state.computed(node), state.integers(node, 1, "axes") or ()
    rank = len(data.shape) + len(listed)
    new = axes_of(listed, rank)
    old = iter(data.shape)
    reshaped(state, node, data, [1 if axis in new else next(old) for axis in range(rank)])


def _transpose(state: Construction, node: OnnxNode) -> None:
    data = state.computed(node)
    axes = node.integers("perm") or tuple(reversed(range(len(data.shape))))
    if sorted(axes) != list(range(len(data.shape))):
        raise Refused(f"it orders the axes {axes} of {shown(data.shape)}")
    transposed(state, node, data, axes)


def _concat(state: Construction, node: OnnxNode) -> None:
    parts = [state.computed(node, position) for position in range(len(node.inputs))]
    first = parts[0].shape
    axis = axis_of(node.integer("axis"), len(first))
    for part in parts:
        if len(part.shape) != len(first) or any(
            one != other for place, (one, other) in enumerate(zip(part.shape, first)) if place != axis
        ):
            raise Refused(f"it joins {shown(first)} and {shown(part.shape)} along axis {axis}")
    if in_batch(first[axis]):
        raise Refused("it makes a larger batch of several")
    shape = (*first[:axis], sum(part.shape[axis] for part in parts), *first[axis + 1 :])
    if len(parts) == 1:
        state.alias(node, parts[0])
        return
    state.finish(node, "Concat", [part.tensor for part in parts], shape, num_args=len(parts), dim=axis)


def _expand(state: Construction, node: OnnxNode) -> None:
    data, asked = state.computed(node), state.integers(node, 1)
    if asked is None:
        raise Refused("it names no shape")
    # A file for one batch size names that size.
    asked = tuple(
        1 if extent == BATCH and size == state.fixed else size
        for extent, size in zip((*[1] * (len(asked) - len(data.shape)), *data.shape)[-len(asked) :], asked)
    )
    shape = broadcast(data.shape, asked)
    full = reshaped(state, node, data, (1,) * (len(shape) - len(data.shape)) + data.shape, "rank")
    axes = tuple(axis for axis, extent in enumerate(shape) if extent != full.shape[axis])
    if not axes:
        state.alias(node, full)
        return
    sizes = tuple(shape[axis] for axis in axes)
    state.finish(node, "broadcast_axis", [full.tensor], shape, axis=axes, size=sizes)


def _tile(state: Construction, node: OnnxNode) -> None:
    """Each axis repeated as one more, which then becomes part of it."""
    data, repeats = state.computed(node), state.integers(node, 1)
    rank = len(data.shape)
    if repeats is None or len(repeats) != rank or min(repeats) < 1:
        raise Refused(f"it repeats {shown(data.shape)} by {repeats}")
    if any(times > 1 and in_batch(extent) for times, extent in zip(repeats, data.shape)):
        raise Refused("it makes a larger batch of several")
    for axis, times in enumerate(repeats):
        if times > 1:
            front, back = data.shape[:axis], data.shape[axis:]
            parts = reshaped(state, node, data, (prod(front), 1, prod(back)), f"parts{axis}")
            many = (prod(front), times, prod(back))
            copies = state.step(node, f"copies{axis}", "broadcast_axis", [parts.tensor], many, axis=(1,), size=(times,))
            data = reshaped(state, node, copies, (*front, times * back[0], *back[1:]), f"tiled{axis}")
    state.alias(node, data)


def _pad(state: Construction, node: OnnxNode) -> None:
    data, pads = state.computed(node), state.integers(node, 1, "pads")
    axes = state.integers(node, 3)
    rank = len(data.shape)
    chosen = tuple(range(rank)) if axes is None else axes_of(axes, rank)
    if pads is None or len(pads) != 2 * len(chosen):
        raise Refused("its list of widths does not fit its input")
    begin, end = [0] * rank, [0] * rank
    for axis, before, behind in zip(chosen, pads, pads[len(chosen) :]):
        begin[axis], end[axis] = before, behind
    mode = node.text("mode", "constant")
    filling = state.constant(node, 2)
    value = node.number("value", 0.0) if filling is None else filling.scalar
    if not any(begin + end):
        state.alias(node, data)
        return
    if rank not in (3, 4, 5) or any(begin[:2] + end[:2]) or min(begin + end) < 0 or value is None:
        raise Refused(f"it pads {begin} before and {end} behind; the engine pads spatial axes only, with one value")
    if mode not in ("constant", "edge", "reflect"):
        raise Refused(f"it pads by {mode!r}")
    if mode == "reflect" and any(max(one, two) >= extent for one, two, extent in zip(begin, end, data.shape)):
        raise Refused(f"it mirrors more than its input {shown(data.shape)} has")
    shape = tuple(sum(each) for each in zip(data.shape, begin, end))
    widths = tuple(width for pair in zip(begin, end) for width in pair)
    if rank > 3:
        state.finish(node, "Pad", [data.tensor], shape, mode=mode, pad_width=widths, constant_value=float(value))
        return
    # The engine pads two or three axes.
    plane = reshaped(state, node, data, (*data.shape[:2], 1, data.shape[2]), "plane")
    wide = state.step(
        node, "wide", "Pad", [plane.tensor], (*shape[:2], 1, shape[2]), mode=mode,
        pad_width=(0, 0, 0, 0, 0, 0, *widths[4:]), constant_value=float(value),
    )  # fmt: skip
    reshaped(state, node, wide, shape)


def _softmax(op: str, state: Construction, node: OnnxNode) -> None:
    """Softmax along an axis since opset 13; before that, over it and all axes behind it."""
    data = state.computed(node)
    if state.opset >= 13:
        axis = axis_of(node.integer("axis", -1), len(data.shape))
        behind = data.shape[axis : axis + 1]
    else:
        axis = axis_of(node.integer("axis", 1), len(data.shape))
        behind = data.shape[axis:]
    if any(map(in_batch, behind)):
        raise Refused("it compares images of a batch")
    if elements(behind) == data.shape[axis]:
        state.finish(node, op, [data.tensor], data.shape, axis=axis)
        return
    flat = reshaped(state, node, data, (*data.shape[:axis], prod(behind)), "flat")
    shares = state.step(node, "shares", op, [flat.tensor], flat.shape, axis=axis)
    reshaped(state, node, shares, data.shape)


def _blocks(node: OnnxNode, data: Computed) -> int:
    size = node.integer("blocksize")
    if len(data.shape) != 4 or size < 1:
        raise Refused(f"it moves blocks of {size} in {shown(data.shape)}")
    return size


def _depth_to_space(state: Construction, node: OnnxNode) -> None:
    data = state.computed(node)
    size, (batch, channels, height, width) = _blocks(node, data), data.shape
    left, rest = divmod(channels, size * size)
    if rest:
        raise Refused(f"it moves blocks of {size} in {channels} channels")
    shape = (batch, left, height * size, width * size)
    if node.text("mode", "DCR") == "DCR":
        state.finish(node, "depth_to_space", [data.tensor], shape, block_size=size)
        return
    parts = reshaped(state, node, data, (batch, left, size, size, height, width), "blocks")
    moved = transposed(state, node, parts, (0, 1, 4, 2, 5, 3), "moved")
    reshaped(state, node, moved, shape)


def _space_to_depth(state: Construction, node: OnnxNode) -> None:
    data = state.computed(node)
    size, (batch, channels, height, width) = _blocks(node, data), data.shape
    if height % size or width % size:
        raise Refused(f"it moves blocks of {size} in {shown(data.shape)}")
    shape = (batch, channels * size * size, height // size, width // size)
    state.finish(node, "space_to_depth", [data.tensor], shape, block_size=size)


LAYOUT: Mapping[str, Converter] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Concat": _concat,
    "Expand": _expand,
    "Tile": _tile,
    "Pad": _pad,
    "Softmax": partial(_softmax, "softmax"),
    "LogSoftmax": partial(_softmax, "log_softmax"),
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
