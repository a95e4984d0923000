"""Activations. After the ONNX operator specification."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from quantkit.formats.onnx.reading.construction import Attr, Construction, Converter
from quantkit.formats.onnx.reading.elementwise import combined, pointwise
from quantkit.formats.onnx.reading.values import Computed, Constant, OnnxNode, Refused, broadcast, shown

_LARGEST = float(np.finfo(np.float32).max)


def _leaky(state: Construction, node: OnnxNode) -> None:
    pointwise("LeakyReLU", state, node, act_type="leaky", slope=node.number("alpha", 0.01))


def _elu(state: Construction, node: OnnxNode) -> None:
    pointwise("LeakyReLU", state, node, act_type="elu", slope=node.number("alpha", 1.0))


def _selu(state: Construction, node: OnnxNode) -> None:
    """Klambauer et al. 2017, "Self-Normalizing Neural Networks", whose constants the engine has."""
    alpha, gamma = node.number("alpha", 1.67326319), node.number("gamma", 1.05070102)
    if abs(alpha - 1.67326319) + abs(gamma - 1.05070102) <= 1e-6:
        pointwise("LeakyReLU", state, node, act_type="selu")
        return
    data = state.computed(node)
    bent = state.step(node, "elu", "LeakyReLU", [data.tensor], data.shape, act_type="elu", slope=alpha)
    state.finish(node, "_mul_scalar", [bent.tensor], data.shape, scalar=gamma)


def _gelu(state: Construction, node: OnnxNode) -> None:
    """Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", exact or with their approximation by tanh."""
    if node.text("approximate", "none") == "none":
        pointwise("LeakyReLU", state, node, act_type="gelu")
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
    # Until opset 6 slopes are not broadcast, but one for each channel.
    if state.opset < 7 and slope.shape == (channels,):
        slope = Constant(slope.name, slope.array.reshape(wanted))
    if slope.array.size != 1 and (len(slope.shape) > len(wanted) or broadcast(slope.shape, wanted) != wanted):
        _prelu_of_places(state, node, data, slope)
        return
    slopes = state.parameter(slope.name, slope.array.reshape(-1))
    state.finish(node, "LeakyReLU", [data.tensor, slopes], data.shape, act_type="prelu")


def _prelu_of_places(state: Construction, node: OnnxNode, data: Computed, slope: Constant) -> None:
    """With slopes for other axes than that of the channels, which the engine lacks: max(x, 0) + slope min(x, 0)."""
    if broadcast(data.shape, slope.shape) != data.shape:
        raise Refused(f"its slope of shape {slope.shape} does not fit input {shown(data.shape)}")
    above = state.step(node, "above", "Activation", [data.tensor], data.shape, act_type="relu")
    below = state.step(node, "below", "_minimum_scalar", [data.tensor], data.shape, scalar=0.0)
    combined("Add", state, node, above, combined("Mul", state, node, below, slope, "sloped"))


def _clip(state: Construction, node: OnnxNode) -> None:
    low, high = _bound(state, node, 1, "min", -_LARGEST), _bound(state, node, 2, "max", _LARGEST)
    if not low <= high:
        raise Refused(f"its bounds are {low} and {high}")
    if low <= -_LARGEST and high >= _LARGEST:
        state.alias(node, state.computed(node))
    elif low == 0.0 and high >= _LARGEST:
        pointwise("Activation", state, node, act_type="relu")
    elif high >= _LARGEST:
        pointwise("_maximum_scalar", state, node, scalar=low)
    elif low <= -_LARGEST:
        pointwise("_minimum_scalar", state, node, scalar=high)
    else:
        pointwise("clip", state, node, a_min=low, a_max=high)


def _bound(state: Construction, node: OnnxNode, position: int, name: str, default: float) -> float:
    """A limit: an attribute before opset 11, an input since."""
    value = state.constant(node, position)
    if value is None:
        return node.number(name, default)
    if value.scalar is None:
        raise Refused(f"its {name} is not one number")
    return value.scalar


def _hard_sigmoid(state: Construction, node: OnnxNode) -> None:
    pointwise("hard_sigmoid", state, node, alpha=node.number("alpha", 0.2), beta=node.number("beta", 0.5))


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


def _celu(state: Construction, node: OnnxNode) -> None:
    """Barron 2017, "Continuously Differentiable Exponential Linear Units": alpha elu(x / alpha)."""
    data, alpha = state.computed(node), node.number("alpha", 1.0)
    if alpha <= 0:
        raise Refused(f"its alpha of {alpha} is not positive")
    scaled = state.step(node, "scaled", "_div_scalar", [data.tensor], data.shape, scalar=alpha)
    bent = state.step(node, "elu", "LeakyReLU", [scaled.tensor], data.shape, act_type="elu", slope=1.0)
    state.finish(node, "_mul_scalar", [bent.tensor], data.shape, scalar=alpha)


def _swish(state: Construction, node: OnnxNode) -> None:
    """Ramachandran et al. 2017, "Searching for Activation Functions": x sigmoid(alpha x)."""
    data, alpha = state.computed(node), node.number("alpha", 1.0)
    inner = data if alpha == 1 else state.step(node, "scaled", "_mul_scalar", [data.tensor], data.shape, scalar=alpha)
    gate = state.step(node, "gate", "Activation", [inner.tensor], data.shape, act_type="sigmoid")
    state.finish(node, "elemwise_mul", [data.tensor, gate.tensor], data.shape)


_PLAIN = {
    "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Softplus": "softrelu", "Softsign": "softsign",
}  # fmt: skip

ACTIVATIONS: Mapping[str, Converter] = {
    **{op: partial(pointwise, "Activation", act_type=kind) for op, kind in _PLAIN.items()},
    "LeakyRelu": _leaky,
    "Elu": _elu,
    "Celu": _celu,
    "Selu": _selu,
    "Gelu": _gelu,
    "Mish": _mish,
    "Swish": _swish,
    "PRelu": _prelu,
    "Clip": _clip,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
}
