"""Choosing in ONNX: comparisons, the largest values, parts by index or by another tensor's size."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from quantkit.formats.onnx.writing.conversion import (
    BOOL,
    FLOAT,
    INT64,
    Conversion,
    Converter,
    Operator,
    name_of,
    refused,
)
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.operators import flag, integer, integers, number

_RELATIONS = {
    "equal": "Equal",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "lesser": "Less",
    "lesser_equal": "LessOrEqual",
}


def _relation(op: str, conversion: Conversion, node: Node) -> None:
    """MXNet's truths are 0 and 1 as float32."""
    operands = [*map(conversion.read, node.inputs)]
    if len(operands) == 1:
        operands.append(conversion.floats(node, "scalar", number(node, "scalar", 1.0)))
    conversion.finish(node, "Cast", conversion.step(node, "truth", op, *operands), to=FLOAT)


def _where(conversion: Conversion, node: Node) -> None:
    condition, first, _ = node.inputs
    if conversion.shape(condition) != conversion.shape(first):
        raise refused(node, "a condition for rows")
    truth = conversion.step(node, "truth", "Cast", conversion.read(condition), to=BOOL)
    conversion.finish(node, "Where", truth, *map(conversion.read, node.inputs[1:]))


def _slice_like(conversion: Conversion, node: Node) -> None:
    data, other = node.inputs
    rank = len(conversion.shape(data))
    axes = sorted(axis % rank for axis in integers(node, "axes") or range(rank))
    axes_read = conversion.integers(node, "axes", axes)
    if 0 in axes:
        extents = conversion.step(node, "extents", "Shape", conversion.read(other))
        ends = conversion.step(node, "ends", "Gather", extents, axes_read, axis=0)
    else:
        ends = conversion.integers(node, "ends", [conversion.shape(other)[axis] for axis in axes])
    starts = conversion.integers(node, "starts", [0] * len(axes))
    conversion.finish(node, "Slice", conversion.read(data), starts, ends, axes_read)


def _arange(conversion: Conversion, node: Node) -> None:
    if node.attrs.get("dtype", "float32") != "float32":
        raise refused(node, f"numbers of the type {node.attrs['dtype']}")
    (count,) = conversion.shape(node.output)
    start = 0.0 if node.attrs.get("stop", "None") == "None" else number(node, "start", 0.0)
    steps = np.arange(count) // integer(node, "repeat", 1)
    values = (start + number(node, "step", 1.0) * steps).astype(np.float32)
    conversion.finish(node, "Identity", conversion.constant(node, "values", values))


def _arange_like(conversion: Conversion, node: Node) -> None:
    """As many numbers as another tensor has values along an axis."""
    usual = {"start": 0.0, "step": 1.0, "repeat": 1.0}
    if node.attrs.get("axis", "None") == "None" or any(
        number(node, name, value) != value for name, value in usual.items()
    ):
        raise refused(node, "numbers other than 0, 1, 2, ... along one axis")
    extents = conversion.step(node, "extents", "Shape", conversion.read(node.inputs[0]))
    ends = {"first": 0, "axis": integer(node, "axis", 0), "next": 1}
    first, axis, following = (conversion.constant(node, name, np.array(value)) for name, value in ends.items())
    count = conversion.step(node, "count", "Gather", extents, axis, axis=0)
    conversion.finish(node, "Cast", conversion.step(node, "numbers", "Range", first, count, following), to=FLOAT)


def _tile(conversion: Conversion, node: Node) -> None:
    repeats, rank = integers(node, "reps"), len(conversion.shape(node.inputs[0]))
    data = conversion.read(node.inputs[0])
    if len(repeats) > rank:
        axes = conversion.integers(node, "axes", range(len(repeats) - rank))
        data = conversion.step(node, "wide", "Unsqueeze", data, axes)
    counts = conversion.integers(node, "counts", (*[1] * (rank - len(repeats)), *repeats))
    conversion.finish(node, "Tile", data, counts)


def _repeat(conversion: Conversion, node: Node) -> None:
    """Each value several times, where a tile repeats the whole."""
    shape, data = conversion.shape(node.inputs[0]), conversion.read(node.inputs[0])
    axis = 0 if node.attrs.get("axis", "None") == "None" else integer(node, "axis", 0) % len(shape)
    if axis == 0:
        raise refused(node, "it repeats the images of a batch, or names no axis")
    counts = [1] * (len(shape) + 1)
    counts[axis + 1] = integer(node, "repeats", 1)
    single = conversion.step(node, "single", "Unsqueeze", data, conversion.integers(node, "axes", (axis + 1,)))
    several = conversion.step(node, "several", "Tile", single, conversion.integers(node, "counts", counts))
    target = conversion.integers(node, "shape", (0, *conversion.shape(node.output)[1:]))
    conversion.finish(node, "Reshape", several, target)


def _cast(conversion: Conversion, node: Node) -> None:
    if node.attrs.get("dtype") != "float32":
        raise refused(node, f"numbers of the type {node.attrs.get('dtype')}")
    conversion.finish(node, "Cast", conversion.read(node.inputs[0]), to=FLOAT)


def _shape_array(conversion: Conversion, node: Node) -> None:
    conversion.finish(node, "Shape", conversion.read(node.inputs[0]))


def _top_k(conversion: Conversion, node: Node) -> None:
    """MXNet returns indices as float32, alone where nothing else is asked for."""
    kind, count = node.attrs.get("ret_typ", "indices"), integer(node, "k", 1)
    if kind == "mask" or count < 1 or flag(node, "is_ascend") or node.attrs.get("dtype", "float32") != "float32":
        raise refused(node, "other than the largest values and their indices as float32")
    first, second = name_of(node.output), name_of(Tensor(node.name, 1))
    # TopK has both outputs, whatever is read of them.
    values = conversion.names.take(f"{node.name}_values") if kind == "indices" else first
    order = conversion.names.take(f"{node.name}_order")
    inputs = (conversion.read(node.inputs[0]), conversion.integers(node, "count", (count,)))
    conversion.add(Operator("TopK", values, inputs, (values, order), {"axis": integer(node, "axis", -1)}))
    if kind != "value":
        index = first if kind == "indices" else second
        conversion.add(Operator("Cast", index, (order,), (index,), {"to": FLOAT}))


def _arg_sort(conversion: Conversion, node: Node) -> None:
    """Of equal values the first comes first; in MXNet, whose sort is not stable, any of them may."""
    shape = conversion.shape(node.inputs[0])
    axis = None if node.attrs.get("axis") == "None" else integer(node, "axis", -1) % len(shape)
    if not axis or node.attrs.get("dtype", "float32") != "float32":
        raise refused(node, "other than indices as float32, or an order of all images of a batch")
    values, order = (conversion.names.take(f"{node.name}_{part}") for part in ("values", "order"))
    inputs = (conversion.read(node.inputs[0]), conversion.integers(node, "count", (shape[axis],)))
    largest = int(not flag(node, "is_ascend", True))
    conversion.add(Operator("TopK", values, inputs, (values, order), {"axis": axis, "largest": largest}))
    conversion.finish(node, "Cast", order, to=FLOAT)


def _stack(conversion: Conversion, node: Node) -> None:
    axis = integer(node, "axis", 0)
    axes = conversion.integers(node, "axes", (axis,))
    parts = (
        conversion.step(node, f"part{place}", "Unsqueeze", conversion.read(tensor), axes)
        for place, tensor in enumerate(node.inputs)
    )
    conversion.finish(node, "Concat", *parts, axis=axis)


def _gather_nd(conversion: Conversion, node: Node) -> None:
    """MXNet's indices have the axes that they choose along first, ONNX's last."""
    data, indices = node.inputs
    rank = len(conversion.shape(indices))
    turned = conversion.step(node, "turned", "Transpose", conversion.read(indices), perm=(*range(1, rank), 0))
    places = conversion.step(node, "places", "Cast", turned, to=INT64)
    conversion.finish(node, "GatherND", conversion.read(data), places)


SELECTION: Mapping[str, Converter] = {
    **{
        name.format(relation): partial(_relation, op)
        for relation, op in _RELATIONS.items()
        for name in ("_{}", "_{}_scalar", "broadcast_{}")
    },
    "where": _where,
    "slice_like": _slice_like,
    "_arange": _arange,
    "_contrib_arange_like": _arange_like,
    "tile": _tile,
    "repeat": _repeat,
    "Cast": _cast,
    "shape_array": _shape_array,
    "topk": _top_k,
    "argsort": _arg_sort,
    "stack": _stack,
    "gather_nd": _gather_nd,
}
