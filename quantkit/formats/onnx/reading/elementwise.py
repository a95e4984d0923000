"""Arithmetic. After the ONNX operator specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from quantkit.formats.onnx.reading.construction import Attr, Construction, Converter, reshaped
from quantkit.formats.onnx.reading.values import Computed, Constant, OnnxNode, Refused, Value, axis_of, broadcast, shown
from quantkit.ir.graph import Tensor

# By ONNX operator: MXNet's for two tensors, for a tensor and a scalar, and for a scalar and a tensor.
_BINARY = {
    "Add": ("broadcast_add", "_plus_scalar", "_plus_scalar"),
    "Sub": ("broadcast_sub", "_minus_scalar", "_rminus_scalar"),
    "Mul": ("broadcast_mul", "_mul_scalar", "_mul_scalar"),
    "Div": ("broadcast_div", "_div_scalar", "_rdiv_scalar"),
    "Pow": ("broadcast_power", "_power_scalar", "_rpower_scalar"),
    "Max": ("broadcast_maximum", "_maximum_scalar", "_maximum_scalar"),
    "Min": ("broadcast_minimum", "_minimum_scalar", "_minimum_scalar"),
}

# MXNet's operators without broadcasting, which fusion and the INT8 kernels support.
_SAME_SHAPE = {
    "Add": "elemwise_add", "Sub": "elemwise_sub", "Mul": "elemwise_mul", "Div": "elemwise_div",
}  # fmt: skip


def _binary(op: str, state: Construction, node: OnnxNode) -> None:
    one, other = (_operand(state, node, position) for position in range(2))
    combined(op, state, node, one, _aligned(state, node, one, other) if "axis" in node.attributes else other)


def _aligned(state: Construction, node: OnnxNode, one: Value, other: Value) -> Value:
    """The second operand with axes of one behind its own: until opset 6 an attribute says where its first one lies."""
    behind = len(one.shape) - axis_of(node.integer("axis"), len(one.shape)) - len(other.shape)
    if behind < 0:
        raise Refused(f"it puts {shown(other.shape)} at axis {node.integer('axis')} of {shown(one.shape)}")
    shape = (*other.shape, *[1] * behind)
    if isinstance(other, Constant):
        return Constant(other.name, other.array.reshape(shape))
    return reshaped(state, node, other, shape, "aligned")


def _several(op: str, state: Construction, node: OnnxNode) -> None:
    """Any number of tensors, two at a time."""
    first, others = _operands(state, node)
    if not others:
        state.alias(node, first)
        return
    combined(op, state, node, _joined(op, state, node, first, others[:-1]), others[-1])


def _mean(state: Construction, node: OnnxNode) -> None:
    first, others = _operands(state, node)
    total = _joined("Add", state, node, first, others)
    state.finish(node, "_div_scalar", [total.tensor], total.shape, scalar=float(1 + len(others)))


def _operands(state: Construction, node: OnnxNode) -> tuple[Computed, list[Value]]:
    """The first input that depends on the image, and the others: the order of all does not matter."""
    given = [_operand(state, node, position) for position in range(len(node.inputs))]
    for position, value in enumerate(given):
        if isinstance(value, Computed):
            return value, given[:position] + given[position + 1 :]
    raise Refused("none of its inputs is computed from the image")


def _joined(op: str, state: Construction, node: OnnxNode, first: Computed, more: Sequence[Value]) -> Computed:
    for number, operand in enumerate(more, 1):
        first = combined(op, state, node, first, operand, f"part{number}")
    return first


def _operand(state: Construction, node: OnnxNode, position: int) -> Value:
    value = state.value(node, position)
    if value is None:
        raise Refused(f"its input {position} is missing")
    return value


def combined(op: str, state: Construction, node: OnnxNode, one: Value, other: Value, what: str = "") -> Computed:
    """Two tensors combined with broadcasting, as the result or, if ``what`` names it, as an intermediate step.

    Raises:
        Refused: their shapes cannot be broadcast, or both are constant.
    """
    tensors, with_scalar, from_scalar = _BINARY[op]
    shape = broadcast(one.shape, other.shape)
    if isinstance(one, Constant) and isinstance(other, Constant):
        raise Refused("both of its inputs are constant, of which one would have to be computed first")
    for data, constant, name in ((one, other, with_scalar), (other, one, from_scalar)):
        if isinstance(data, Computed) and isinstance(constant, Constant):
            scalar = constant.scalar
            if scalar is not None and shape == data.shape:
                if op == "Pow" and scalar == 2.0 and name == with_scalar:
                    return _add(state, node, what, "square", [data.tensor], data)
                return _add(state, node, what, name, [data.tensor], data, scalar=scalar)
    if op in _SAME_SHAPE and isinstance(one, Computed) and isinstance(other, Computed) and one.shape == other.shape:
        return _add(state, node, what, _SAME_SHAPE[op], [one.tensor, other.tensor], one)
    inputs = [
        _with_rank(state, node, value, len(shape), f"{what}operand{number}")
        for number, value in enumerate((one, other))
    ]
    return _add(state, node, what, tensors, inputs, Computed(inputs[0], shape))


def _with_rank(state: Construction, node: OnnxNode, value: Value, rank: int, what: str) -> Tensor:
    shape = (1,) * (rank - len(value.shape)) + value.shape
    if isinstance(value, Constant):
        return state.parameter(value.name, value.array.reshape(shape))
    return reshaped(state, node, value, shape, what).tensor


def _add(
    state: Construction, node: OnnxNode, what: str, op: str, inputs: list[Tensor], like: Computed, **attrs: Attr
) -> Computed:
    if what:
        return state.step(node, what, op, inputs, like.shape, **attrs)
    return state.finish(node, op, inputs, like.shape, **attrs)


def pointwise(op: str, state: Construction, node: OnnxNode, **attrs: Attr) -> None:
    """An operator of each value of a tensor."""
    data = state.computed(node)
    state.finish(node, op, [data.tensor], data.shape, **attrs)


def _same(state: Construction, node: OnnxNode) -> None:
    state.alias(node, state.computed(node))


def _dropout(state: Construction, node: OnnxNode) -> None:
    ratio, training = state.constant(node, 1), state.constant(node, 2)
    keeps = ratio is not None and ratio.scalar == 0.0
    trains = training is not None and training.scalar != 0.0
    if state.opset < 7:
        trains = not node.integer("is_test", 0)
    if trains and not keeps:
        raise Refused("it drops values at inference too; export the network for inference")
    if any(node.outputs[1:]):
        raise Refused("its mask is read; end the network before that")
    _same(state, node)


# By TensorProto.DataType: floating-point numbers, which all become float32.
_FLOATS = (1, 10, 11, 16)
_INTEGERS = (2, 3, 4, 5, 6, 7, 12, 13)


def _cast(state: Construction, node: OnnxNode) -> None:
    data, kind = state.computed(node), node.integer("to")
    if kind in _FLOATS:
        state.alias(node, Computed(data.tensor, data.shape))
    elif data.integral and kind in _INTEGERS:
        state.alias(node, data)
    else:
        raise Refused("it makes integers of floating-point numbers")


_POINTWISE = {
    "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Abs": "abs", "Neg": "negative", "Erf": "erf", "Floor": "floor",
    "Ceil": "ceil", "Reciprocal": "reciprocal", "Sin": "sin", "Cos": "cos",
}  # fmt: skip

ELEMENTWISE: Mapping[str, Converter] = {
    **{op: partial(_binary, op) for op in ("Add", "Sub", "Mul", "Div", "Pow")},
    **{op: partial(_several, op) for op in ("Max", "Min")},
    "Sum": partial(_several, "Add"),
    **{op: partial(pointwise, other) for op, other in _POINTWISE.items()},
    "Mean": _mean,
    "Identity": _same,
    "Dropout": _dropout,
    "Cast": _cast,
}
