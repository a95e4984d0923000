"""Operators that take parts out of a tensor. After the ONNX operator specification."""

from __future__ import annotations

from collections.abc import Mapping

from quantkit.formats.onnx.reading.construction import Construction, Converter, reshaped
from quantkit.formats.onnx.reading.folds import slices
from quantkit.formats.onnx.reading.values import BATCH, Computed, Constant, OnnxNode, Refused, axis_of, in_batch, shown
from quantkit.ir.graph import Tensor


def _slice(state: Construction, node: OnnxNode) -> None:
    data = state.computed(node)
    given = [state.integers(node, position) for position in range(1, 5)]
    # A file for one batch size names that size.
    extents = tuple(state.fixed or BATCH if extent == BATCH else extent for extent in data.shape)
    limits = [part.indices(extent) for part, extent in zip(slices(node, extents, given), extents)]
    cut = [axis for axis, extent in enumerate(extents) if limits[axis] != (0, extent, 1)]
    shape = tuple(len(range(*limits[axis])) if axis in cut else extent for axis, extent in enumerate(data.shape))
    if any(in_batch(data.shape[axis]) for axis in cut):
        raise Refused("it takes images out of a batch")
    if not cut:
        state.alias(node, data)
    elif len(cut) == 1 and limits[cut[0]][2] == 1:
        begin, end, _ = limits[cut[0]]
        state.finish(node, "slice_axis", [data.tensor], shape, axis=cut[0], begin=begin, end=end)
    else:
        texts = [
            tuple(None if each < 0 or axis not in cut else each for each in limits[axis][:2])
            for axis in range(len(shape))
        ]
        steps = tuple(limits[axis][2] for axis in range(len(shape)))
        begins, ends = (str(tuple(pair[side] for pair in texts)) for side in range(2))
        state.finish(node, "slice", [data.tensor], shape, begin=begins, end=ends, step=steps)


def _split(state: Construction, node: OnnxNode) -> None:
    data = state.computed(node)
    axis = axis_of(node.integer("axis", 0), len(data.shape))
    extent, count = data.shape[axis], len(node.outputs)
    sizes = state.integers(node, 1, "split")
    if sizes is None:
        size = -(-extent // count)
        sizes = tuple(min(size, extent - size * number) for number in range(count))
    if in_batch(extent) or len(sizes) != count or sum(sizes) != extent or min(sizes) < 1:
        raise Refused(f"it splits {extent} into {sizes}")
    shapes = [(*data.shape[:axis], size, *data.shape[axis + 1 :]) for size in sizes]
    if count == 1:
        state.alias(node, data)
    elif len(set(sizes)) == 1 and not state.outputs.intersection(node.outputs):
        whole = state.finish(node, "SliceChannel", [data.tensor], shapes[0], num_outputs=count, axis=axis)
        for number, output in enumerate(node.outputs):
            if output:
                state.values[output] = Computed(Tensor(whole.tensor.node, number), shapes[number])
    else:
        begin = 0
        for number, (size, shape) in enumerate(zip(sizes, shapes)):
            limits = {"axis": axis, "begin": begin, "end": begin + size}
            if node.outputs[number]:
                state.part(node, number, "slice_axis", [data.tensor], shape, **limits)
            begin += size


def _gather(state: Construction, node: OnnxNode) -> None:
    if isinstance(state.value(node, 0), Constant):
        _embedding(state, node)
        return
    data, chosen = state.computed(node), state.weights(node, 1)
    axis = axis_of(node.integer("axis", 0), len(data.shape))
    extent = data.shape[axis]
    indices = chosen.array
    state.budget.take(8 * indices.size)
    if indices.dtype.kind not in "iu" or in_batch(extent) or indices.min() < -extent or indices.max() >= extent:
        raise Refused(f"it takes {indices.size} values of axis {axis} of {shown(data.shape)}, or images of a batch")
    indices = indices % extent
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    if indices.size == 1:
        begin = int(indices.reshape(-1)[0])
        part = state.step(
            node, "part", "slice_axis", [data.tensor], (*data.shape[:axis], 1, *data.shape[axis + 1 :]), axis=axis,
            begin=begin, end=begin + 1,
        )  # fmt: skip
        reshaped(state, node, part, shape)
        return
    places = state.parameter(f"{node.name}_indices", indices)
    state.finish(node, "take", [data.tensor, places], shape, axis=axis, mode="clip")


def _embedding(state: Construction, node: OnnxNode) -> None:
    """Rows of a constant table, chosen by the image: by tokens."""
    table, tokens = state.weights(node, 0), state.computed(node, 1)
    if table.array.ndim != 2 or table.array.dtype.kind != "f" or axis_of(node.integer("axis", 0), 2) != 0:
        raise Refused(f"it chooses by the image from a constant of shape {table.shape}, other than rows of a table")
    if not tokens.integral:
        raise Refused("it chooses by floating-point numbers; export the network with int64 tokens as its input")
    rows, features = table.shape
    weight = state.parameter(table.name, table.array)
    shape = (*tokens.shape, features)
    state.finish(node, "Embedding", [tokens.tensor, weight], shape, input_dim=rows, output_dim=features)


SELECTION: Mapping[str, Converter] = {"Slice": _slice, "Split": _split, "Gather": _gather}
