"""Activations and arithmetic. After the ONNX operator specification."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from quantkit.formats.onnx.reading.construction import Attr, Construction, Converter, reshaped
from quantkit.formats.onnx.reading.values import Computed, Constant, OnnxNode, Refused, Value, broadcast
from quantkit.ir.graph import Tensor

_LARGEST = float(np.finfo(np.float32).max)

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
    combined(op, state, node, one, other)


def _several(op: str, state: Construction, node: OnnxNode) -> None:
    """Any number of tensors, two at a time."""
    operands = [_operand(state, node, position) for position in range(len(node.inputs))]
    if len(operands) == 1 and isinstance(operands[0], Computed):
        state.alias(node, operands[0])
        return
    total, last = operands[0], operands.pop()
    for number, operand in enumerate(operands[1:], 1):
        total = combined(op, state, node, total, operand, f"part{number}")
    combined(op, state, node, total, last)


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


def _pointwise(op: str, state: Construction, node: OnnxNode, **attrs: Attr) -> None:
    data = state.computed(node)
    state.finish(node, op, [data.tensor], data.shape, **attrs)


def _leaky(state: Construction, node: OnnxNode) -> None:
    _pointwise("LeakyReLU", state, node, act_type="leaky", slope=node.number("alpha", 0.01))


def _elu(state: Construction, node: OnnxNode) -> None:
    _pointwise("LeakyReLU", state, node, act_type="elu", slope=node.number("alpha", 1.0))


def _selu(state: Construction, node: OnnxNode) -> None:
    """The engine has the constants of Klambauer et al. 2017, "Self-Normalizing Neural Networks"."""
    if abs(node.number("alpha", 1.67326319) - 1.67326319) + abs(node.number("gamma", 1.05070102) - 1.05070102) > 1e-6:
        raise Refused("its alpha and gamma are not those of the Selu")
    _pointwise("LeakyReLU", state, node, act_type="selu")


def _gelu(state: Construction, node: OnnxNode) -> None:
    """Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", exact or with their approximation by tanh."""
    if node.text("approximate", "none") == "none":
        _pointwise("LeakyReLU", state, node, act_type="gelu")
        return
    data = state.computed(node)

    def step(what: str, op: str, *inputs: Computed, **attrs: Attr) -> Computed:
        return state.step(node, what, op, [each.tensor for each in inputs], data.shape, **attrs)

    cube = step("cube", "_mul_scalar", step("power", "_power_scalar", data, scalar=3.0), scalar=0.044715)
    inner = step("scaled", "_mul_scalar", step("inner", "elemwise_add", data, cube), scalar=float(np.sqrt(2 / np.pi)))
    share = step("share", "_plus_scalar", step("tanh", "Activation", inner, act_type="tanh"), scalar=1.0)
    half = step("half", "_mul_scalar", share, scalar=0.5)
    state.finish(node, "elemwise_mul", [data.tensor, half.tensor], data.shape)


def _prelu(state: Construction, node: OnnxNode) -> None:
    data, slope = state.computed(node), state.weights(node, 1)
    channels = data.shape[1] if len(data.shape) > 1 else 1
    wanted = (channels, *[1] * (len(data.shape) - 2))
    if slope.array.size != 1 and broadcast(slope.shape, wanted) != wanted:
        raise Refused(f"its slope of shape {slope.shape} is not one for each of {channels} channels")
    slopes = state.parameter(slope.name, slope.array.reshape(-1))
    state.finish(node, "LeakyReLU", [data.tensor, slopes], data.shape, act_type="prelu")


def _clip(state: Construction, node: OnnxNode) -> None:
    low, high = _bound(state, node, 1, "min", -_LARGEST), _bound(state, node, 2, "max", _LARGEST)
    if not low <= high:
        raise Refused(f"its bounds are {low} and {high}")
    if low <= -_LARGEST and high >= _LARGEST:
        state.alias(node, state.computed(node))
    elif low == 0.0 and high >= _LARGEST:
        _pointwise("Activation", state, node, act_type="relu")
    elif high >= _LARGEST:
        _pointwise("_maximum_scalar", state, node, scalar=low)
    elif low <= -_LARGEST:
        _pointwise("_minimum_scalar", state, node, scalar=high)
    else:
        _pointwise("clip", state, node, a_min=low, a_max=high)


def _bound(state: Construction, node: OnnxNode, position: int, name: str, default: float) -> float:
    """A limit: an attribute before opset 11, an input since."""
    value = state.constant(node, position)
    if value is None:
        return node.number(name, default)
    if value.scalar is None:
        raise Refused(f"its {name} is not one number")
    return value.scalar


def _hard_sigmoid(state: Construction, node: OnnxNode) -> None:
    _pointwise("hard_sigmoid", state, node, alpha=node.number("alpha", 0.2), beta=node.number("beta", 0.5))


def _hard_swish(state: Construction, node: OnnxNode) -> None:
    """Howard et al. 2019, "Searching for MobileNetV3": x hardsigmoid(x), with slope 1/6."""
    data = state.computed(node)
    gate = state.step(node, "gate", "hard_sigmoid", [data.tensor], data.shape, alpha=1 / 6, beta=0.5)
    state.finish(node, "elemwise_mul", [data.tensor, gate.tensor], data.shape)


def _mish(state: Construction, node: OnnxNode) -> None:
    """Misra 2019, "Mish: A Self Regularized Non-Monotonic Activation Function": x tanh(softplus(x))."""
    data = state.computed(node)
    soft = state.step(node, "softplus", "Activation", [data.tensor], data.shape, act_type="softrelu")
    gate = state.step(node, "tanh", "Activation", [soft.tensor], data.shape, act_type="tanh")
    state.finish(node, "elemwise_mul", [data.tensor, gate.tensor], data.shape)


def _same(state: Construction, node: OnnxNode) -> None:
    state.alias(node, state.computed(node))


def _dropout(state: Construction, node: OnnxNode) -> None:
    training = state.constant(node, 2)
    if any(node.outputs[1:]) or (training is not None and training.scalar != 0.0):
        raise Refused("it drops values at inference too, or puts out its mask")
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

_ACTIVATIONS = {
    "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Softplus": "softrelu", "Softsign": "softsign",
}  # fmt: skip

ELEMENTWISE: Mapping[str, Converter] = {
    **{op: partial(_binary, op) for op in ("Add", "Sub", "Mul", "Div", "Pow")},
    **{op: partial(_several, op) for op in ("Max", "Min")},
    "Sum": partial(_several, "Add"),
    **{op: partial(_pointwise, other) for op, other in _POINTWISE.items()},
    **{op: partial(_pointwise, "Activation", act_type=kind) for op, kind in _ACTIVATIONS.items()},
    "LeakyRelu": _leaky,
    "Elu": _elu,
    "Selu": _selu,
    "Gelu": _gelu,
    "Mish": _mish,
    "PRelu": _prelu,
    "Clip": _clip,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Identity": _same,
    "Dropout": _dropout,
    "Cast": _cast,
}
