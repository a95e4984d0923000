"""ONNX's operators on constants in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, Optional

import numpy as np

from quantkit.formats.onnx.reading.constant_inputs import Arrays, array_at, axes_at, integers_at, number_at
from quantkit.formats.onnx.reading.values import OnnxNode, Refused, Shape, axes_of, axis_of, broadcast

Fold = Callable[[OnnxNode, Arrays], np.ndarray]

# By TensorProto.DataType; all precisions of floating-point numbers are one, as in ``tensors``.
_TYPES = {
    **dict.fromkeys((1, 10, 11, 16), np.float32),
    2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_, 12: np.uint32,
    13: np.uint64,
}  # fmt: skip


def _constant(node: OnnxNode, arrays: Arrays) -> np.ndarray:
    for name in ("value", "value_float", "value_int", "value_floats", "value_ints"):
        if name in node.attributes:
            value = node.attributes[name]
            if isinstance(value, np.ndarray):
                return value
            return np.array(value, np.float32 if "float" in name else np.int64)
    raise Refused("it is a constant of text, or sparse")


def _filled(node: OnnxNode, arrays: Arrays) -> np.ndarray:
    value = node.attributes.get("value", np.zeros(1, np.float32))
    if not isinstance(value, np.ndarray) or value.size != 1:
        raise Refused("its value is not one number")
    return np.broadcast_to(value.reshape(-1)[0], integers_at(arrays, 0))


def _cast(node: OnnxNode, arrays: Arrays) -> np.ndarray:
    kind = node.integer("to")
    if kind not in _TYPES:
        raise Refused(f"it casts to ONNX's data type {kind}")
    return array_at(arrays, 0).astype(_TYPES[kind])


def _gather(node: OnnxNode, arrays: Arrays) -> np.ndarray:
    data, indices = array_at(arrays, 0), array_at(arrays, 1)
    if indices.dtype.kind not in "iub":
        raise Refused("its input 1 does not hold integers")
    return np.take(data, indices.astype(np.int64), axis=axis_of(node.integer("axis", 0), data.ndim))


def _unsqueeze(node: OnnxNode, arrays: Arrays) -> np.ndarray:
    data, axes = array_at(arrays, 0), axes_at(node, arrays) or []
    return np.expand_dims(data, axes_of(axes, data.ndim + len(axes)))


def _squeeze(node: OnnxNode, arrays: Arrays) -> np.ndarray:
    data, axes = array_at(arrays, 0), axes_at(node, arrays)
    return np.squeeze(data) if axes is None else np.squeeze(data, axes_of(axes, data.ndim))


def _concat(node: OnnxNode, arrays: Arrays) -> np.ndarray:
    parts = [array_at(arrays, position) for position in range(len(arrays))]
    return np.concatenate(parts, axis_of(node.integer("axis"), parts[0].ndim))


def _slice(node: OnnxNode, arrays: Arrays) -> np.ndarray:
    data = array_at(arrays, 0)
    given = [None if arrays[position] is None else integers_at(arrays, position) for position in range(1, len(arrays))]
    return data[slices(node, data.shape, given)]


def slices(node: OnnxNode, shape: Shape, given: Sequence[Optional[Sequence[int]]]) -> tuple[slice, ...]:
    """The slice of each axis; ``given`` are the inputs of Slice after the first, attributes in older opsets.

    Raises:
        Refused: the lists do not fit together.
    """
    starts, ends, axes, steps = [*given, None, None, None, None][:4]
    starts = node.integers("starts") if starts is None else starts
    ends = node.integers("ends") if ends is None else ends
    axes = node.integers("axes") if axes is None else axes
    if starts is None or ends is None:
        raise Refused("it has no limits")
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise Refused("its lists of limits, axes and steps are of different length")
    chosen = [slice(None)] * len(shape)
    for axis, start, end, step in zip(axes_of(axes, len(shape)), starts, ends, steps):
        if step == 0:
            raise Refused("its step is 0")
        # What lies beyond the front of a backward slice ONNX reads as the first value, and as Python's None for an end.
        first = max(int(start), -shape[axis]) if step < 0 else int(start)
        last = None if step < 0 and end < -shape[axis] else int(end)
        chosen[axis] = slice(first, last, int(step))
    return tuple(chosen)


def _reshape(node: OnnxNode, arrays: Arrays) -> np.ndarray:
    data = array_at(arrays, 0)
    keep = not node.integer("allowzero", 0)
    target = [
        data.shape[axis_of(position, data.ndim)] if extent == 0 and keep else extent
        for position, extent in enumerate(integers_at(arrays, 1))
    ]
    return data.reshape(target)


def _flatten(node: OnnxNode, arrays: Arrays) -> np.ndarray:
    data, axis = array_at(arrays, 0), node.integer("axis", 1)
    axis = axis if axis == array_at(arrays, 0).ndim else axis_of(axis, data.ndim)
    return data.reshape(prod(data.shape[:axis]), -1)


def _transpose(node: OnnxNode, arrays: Arrays) -> np.ndarray:
    data = array_at(arrays, 0)
    return data.transpose(node.integers("perm") or tuple(reversed(range(data.ndim))))


def _range(node: OnnxNode, arrays: Arrays) -> np.ndarray:
    return np.arange(*(number_at(arrays, position) for position in range(3)), dtype=array_at(arrays, 0).dtype)


def expanded(node: OnnxNode, arrays: Arrays) -> Shape:
    """The shape that Expand makes of its input."""
    return broadcast(array_at(arrays, 0).shape, tuple(integers_at(arrays, 1)))


def _expand(node: OnnxNode, arrays: Arrays) -> np.ndarray:
    return np.broadcast_to(array_at(arrays, 0), expanded(node, arrays))


def _tile(node: OnnxNode, arrays: Arrays) -> np.ndarray:
    return np.tile(array_at(arrays, 0), integers_at(arrays, 1))


def _reduce(function: Callable[..., Any], node: OnnxNode, arrays: Arrays) -> np.ndarray:
    data, axes = array_at(arrays, 0), axes_at(node, arrays)
    if not axes and node.integer("noop_with_empty_axes", 0):
        return data
    chosen = axes_of(axes, data.ndim) if axes else None
    return np.asarray(function(data, axis=chosen, keepdims=bool(node.integer("keepdims", 1)))).astype(data.dtype)


def _every(function: Callable[..., Any], node: OnnxNode, arrays: Arrays) -> np.ndarray:
    return np.asarray(function(*(array_at(arrays, position) for position in range(len(arrays)))))


def _same_type(function: Callable[..., Any], node: OnnxNode, arrays: Arrays) -> np.ndarray:
    return _every(function, node, arrays).astype(array_at(arrays, 0).dtype)


def _successive(function: Callable[[np.ndarray, np.ndarray], np.ndarray], node: OnnxNode, arrays: Arrays) -> np.ndarray:
    result = array_at(arrays, 0)
    for position in range(1, len(arrays)):
        result = function(result, array_at(arrays, position))
    return result


def _divide(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Division; of integers it rounds towards zero, as in ONNX."""
    if one.dtype.kind == "f":
        return np.asarray(one / other)
    if not np.all(other):
        raise Refused("it divides by 0")
    return np.asarray(np.sign(one) * np.sign(other) * (np.abs(one) // np.abs(other)))


def _modulo(node: OnnxNode, arrays: Arrays) -> np.ndarray:
    if arrays[1] is not None and not np.all(arrays[1]):
        raise Refused("it divides by 0")
    return _every(np.fmod if node.integer("fmod", 0) else np.mod, node, arrays)


ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _divide, "Pow": np.power, "Equal": np.equal,
    "Less": np.less, "Greater": np.greater, "LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal,
    "And": np.logical_and, "Or": np.logical_or, "Where": np.where,
}  # fmt: skip

_POINTWISE: Mapping[str, Callable[..., Any]] = {
    "Neg": np.negative, "Abs": np.abs, "Floor": np.floor, "Ceil": np.ceil, "Round": np.round, "Sqrt": np.sqrt,
    "Exp": np.exp, "Log": np.log, "Reciprocal": np.reciprocal,
}  # fmt: skip

FOLDS: Mapping[str, Fold] = {
    **{op: partial(_every, function) for op, function in ARITHMETIC.items()},
    **{op: partial(_same_type, function) for op, function in _POINTWISE.items()},
    **{
        op: partial(_reduce, function)
        for op, function in (
            ("ReduceSum", np.sum), ("ReduceProd", np.prod), ("ReduceMax", np.max), ("ReduceMin", np.min),
            ("ReduceMean", np.mean),
        )
    },
    **{
        op: partial(_successive, function)
        for op, function in (("Max", np.maximum), ("Min", np.minimum), ("Sum", np.add))
    },
    "Identity": lambda node, arrays: array_at(arrays, 0),
    "Not": partial(_every, np.logical_not),
    "Mod": _modulo,
    "Pow": partial(_same_type, np.power),
    "Constant": _constant,
    "ConstantOfShape": _filled,
    "Cast": _cast,
    "Gather": _gather,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Concat": _concat,
    "Slice": _slice,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Range": _range,
    "Expand": _expand,
    "Tile": _tile,
}  # fmt: skip
