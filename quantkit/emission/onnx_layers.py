"""Layers with weights or windows in ONNX: convolution, dense, batch normalization, pooling.

After MXNet's sources (src/operator/nn) and the ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quantkit.emission.onnx_conversion import Attribute, Conversion, Converter, refused
from quantkit.graph.graph import Node
from quantkit.graph.operators import flag, integer, integers, number

_CHANNELS_FIRST = ("NCHW", "NCW", "NCDHW", "None")


def _convolution(conversion: Conversion, node: Node) -> None:
    _check_layout(node)
    kernel = integers(node, "kernel")
    pads = integers(node, "pad") or (0,) * len(kernel)
    conversion.finish(
        node,
        "Conv",
        *map(conversion.read, node.inputs),
        kernel_shape=kernel,
        strides=integers(node, "stride") or (1,) * len(kernel),
        dilations=integers(node, "dilate") or (1,) * len(kernel),
        pads=pads * 2,
        group=integer(node, "num_group", 1),
    )


def _dense(conversion: Conversion, node: Node) -> None:
    data, weight, *bias = map(conversion.read, node.inputs)
    if flag(node, "flatten", True):
        if len(conversion.shape(node.inputs[0])) != 2:
            data = conversion.step(node, "flat", "Flatten", data, axis=1)
        conversion.finish(node, "Gemm", data, weight, *bias, transB=1)
        return
    turned = conversion.step(node, "weight_turned", "Transpose", weight, perm=(1, 0))
    if bias:
        product = conversion.step(node, "product", "MatMul", data, turned)
        conversion.finish(node, "Add", product, *bias)
    else:
        conversion.finish(node, "MatMul", data, turned)


def _batch_norm(conversion: Conversion, node: Node) -> None:
    if integer(node, "axis", 1) != 1:
        raise refused(node, f"it normalizes axis {node.attrs['axis']}, ONNX only axis 1")
    data, gamma, beta, mean, variance = node.inputs
    if flag(node, "fix_gamma", True):
        scale = conversion.constant(node, "one", np.ones(conversion.shape(beta), np.float32))
    else:
        scale = conversion.read(gamma)
    rest = map(conversion.read, (beta, mean, variance))
    conversion.finish(
        node, "BatchNormalization", conversion.read(data), scale, *rest, epsilon=number(node, "eps", 1e-3)
    )


def _pooling(conversion: Conversion, node: Node) -> None:
    _check_layout(node)
    kind = node.attrs.get("pool_type", "max")
    if kind not in ("max", "avg"):
        raise refused(node, f"pooling of type {kind!r}")
    data = conversion.read(node.inputs[0])
    if flag(node, "global_pool"):
        conversion.finish(node, {"max": "GlobalMaxPool", "avg": "GlobalAveragePool"}[kind], data)
        return
    convention = node.attrs.get("pooling_convention", "valid")
    if convention not in ("valid", "full"):
        raise refused(node, f"the pooling convention {convention!r}")
    kernel = integers(node, "kernel")
    strides = integers(node, "stride") or (1,) * len(kernel)
    pads = integers(node, "pad") or (0,) * len(kernel)
    extents = conversion.shape(node.inputs[0])[2:]
    overhangs = any((x + 2 * p - k) % s for x, k, s, p in zip(extents, kernel, strides, pads))
    attributes: dict[str, Attribute] = {
        "kernel_shape": kernel,
        "strides": strides,
        "pads": pads * 2,
        "ceil_mode": int(convention == "full" and overhangs),
    }
    if kind == "max":
        conversion.finish(node, "MaxPool", data, **attributes)
        return
    if attributes["ceil_mode"] and conversion.opset < 19:
        raise refused(node, "averages over windows that overhang the border are defined from opset 19 on only")
    included = int(flag(node, "count_include_pad", True))
    conversion.finish(node, "AveragePool", data, **attributes, count_include_pad=included)


def _adaptive_pooling(conversion: Conversion, node: Node) -> None:
    if set(integers(node, "output_size")) != {1}:
        raise refused(node, "adaptive pooling to more than one value a channel")
    conversion.finish(node, "GlobalAveragePool", conversion.read(node.inputs[0]))


def _check_layout(node: Node) -> None:
    layout = node.attrs.get("layout", "None")
    if layout not in _CHANNELS_FIRST:
        raise refused(node, f"the layout {layout}, where ONNX has channels first")


LAYERS: Mapping[str, Converter] = {
    "Convolution": _convolution,
    "FullyConnected": _dense,
    "BatchNorm": _batch_norm,
    "Pooling": _pooling,
    "_contrib_AdaptiveAvgPooling2D": _adaptive_pooling,
}
