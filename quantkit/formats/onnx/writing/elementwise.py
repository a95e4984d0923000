"""Activations, rounding and arithmetic in ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import log

from quantkit.formats.onnx.writing.conversion import Attribute, Conversion, Converter, refused
from quantkit.ir.graph import Node
from quantkit.ir.operators import ADDITIONS, DEQUANTIZE, QUANTIZE, integer, number

_ACTIVATIONS = {
    "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "softrelu": "Softplus", "softsign": "Softsign",
}  # fmt: skip


def _activation(conversion: Conversion, node: Node) -> None:
    kind = node.attrs.get("act_type", "")
    if kind not in _ACTIVATIONS:
        raise refused(node, f"the activation {kind!r}")
    _same(_ACTIVATIONS[kind], conversion, node)


def _leaky(conversion: Conversion, node: Node) -> None:
    kind = node.attrs.get("act_type", "leaky")
    if kind == "prelu":
        data, slope = node.inputs
        axes = (1,) * (len(conversion.shape(data)) - 2)
        shape = conversion.integers(node, "slope_shape", (*conversion.shape(slope), *axes))
        slopes = conversion.step(node, "slopes", "Reshape", conversion.read(slope), shape)
        conversion.finish(node, "PRelu", conversion.read(data), slopes)
    elif kind in ("leaky", "elu"):
        alpha = number(node, "slope", 0.25)
        conversion.finish(
            node, {"leaky": "LeakyRelu", "elu": "Elu"}[kind], conversion.read(node.inputs[0]), alpha=alpha
        )
    elif kind == "selu":
        _same("Selu", conversion, node)
    elif kind == "gelu":
        _gelu(conversion, node)
    else:
        raise refused(node, f"the activation {kind!r}")


def _gelu(conversion: Conversion, node: Node) -> None:
    """Hendrycks and Gimpel 2016, "Gaussian Error Linear Units": x (1 + erf(x / sqrt 2)) / 2."""
    data = conversion.read(node.inputs[0])
    scaled = conversion.step(node, "scaled", "Mul", data, conversion.floats(node, "root", 0.5**0.5))
    error = conversion.step(node, "erf", "Erf", scaled)
    share = conversion.step(node, "share", "Add", error, conversion.floats(node, "one", 1.0))
    product = conversion.step(node, "product", "Mul", data, share)
    conversion.finish(node, "Mul", product, conversion.floats(node, "half", 0.5))


def _clip(conversion: Conversion, node: Node) -> None:
    ends = [conversion.floats(node, name, float(node.attrs[f"a_{name}"])) for name in ("min", "max")]
    conversion.finish(node, "Clip", conversion.read(node.inputs[0]), *ends)


def _dropout(conversion: Conversion, node: Node) -> None:
    if node.attrs.get("mode", "training") == "always":
        raise refused(node, "it drops values at inference too")
    _same("Identity", conversion, node)


def _same(op: str, conversion: Conversion, node: Node, **attributes: Attribute) -> None:
    """An operator with the same inputs in ONNX."""
    conversion.finish(node, op, *map(conversion.read, node.inputs), **attributes)


def _with_scalar(op: str, turned: bool, conversion: Conversion, node: Node) -> None:
    """An operator of a tensor and a scalar; the scalar comes first if ``turned``."""
    data = conversion.read(node.inputs[0])
    scalar = conversion.floats(node, "scalar", number(node, "scalar", 1.0))
    conversion.finish(node, op, *((scalar, data) if turned else (data, scalar)))


def _hard_sigmoid(conversion: Conversion, node: Node) -> None:
    _same("HardSigmoid", conversion, node, alpha=number(node, "alpha", 0.2), beta=number(node, "beta", 0.5))


def _rounding(conversion: Conversion, node: Node) -> None:
    axis = {"axis": integer(node, "axis", 0)} if "axis" in node.attrs else {}
    _same(node.op, conversion, node, **axis)


def _binary_logarithm(conversion: Conversion, node: Node) -> None:
    natural = conversion.step(node, "natural", "Log", conversion.read(node.inputs[0]))
    conversion.finish(node, "Div", natural, conversion.floats(node, "of_two", log(2.0)))


def _square(conversion: Conversion, node: Node) -> None:
    data = conversion.read(node.inputs[0])
    conversion.finish(node, "Mul", data, data)


_SAME = {
    **dict.fromkeys(ADDITIONS, "Add"),
    **dict.fromkeys(("elemwise_sub", "broadcast_sub"), "Sub"),
    **dict.fromkeys(("elemwise_mul", "broadcast_mul"), "Mul"),
    **dict.fromkeys(("elemwise_div", "broadcast_div"), "Div"),
    **dict.fromkeys(("broadcast_maximum", "_maximum"), "Max"),
    **dict.fromkeys(("broadcast_minimum", "_minimum"), "Min"),
    **dict.fromkeys(("_copy", "BlockGrad"), "Identity"),
    "add_n": "Sum",
    "broadcast_power": "Pow",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softsign": "Softsign",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "abs": "Abs",
    "negative": "Neg",
    "erf": "Erf",
    "ceil": "Ceil",
    "floor": "Floor",
    "reciprocal": "Reciprocal",
    "cos": "Cos",
    "sin": "Sin",
}

# By operator: ONNX's, and whether the scalar comes first.
_SCALAR = {
    "_plus_scalar": ("Add", False),
    "_minus_scalar": ("Sub", False),
    "_rminus_scalar": ("Sub", True),
    "_mul_scalar": ("Mul", False),
    "_div_scalar": ("Div", False),
    "_rdiv_scalar": ("Div", True),
    "_power_scalar": ("Pow", False),
    "_rpower_scalar": ("Pow", True),
    "_maximum_scalar": ("Max", False),
    "_minimum_scalar": ("Min", False),
}

ELEMENTWISE: Mapping[str, Converter] = {
    **{op: partial(_same, other) for op, other in _SAME.items()},
    **{op: partial(_with_scalar, other, turned) for op, (other, turned) in _SCALAR.items()},
    "Activation": _activation,
    "LeakyReLU": _leaky,
    "clip": _clip,
    "Dropout": _dropout,
    "square": _square,
    "log2": _binary_logarithm,
    "hard_sigmoid": _hard_sigmoid,
    QUANTIZE: _rounding,
    DEQUANTIZE: _rounding,
}
