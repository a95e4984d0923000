"""Layers with weights or windows in ONNX: convolution, dense, batch normalization, pooling; products of matrices.

After MXNet's sources (src/operator/nn) and the ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quantkit.formats.onnx.writing.conversion import Attribute, Conversion, Converter, OpsetTooOld, refused
from quantkit.ir.graph import Node
from quantkit.ir.operators import flag, integer, integers, number

_DEFORMABLE_FROM = 19

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


def _deformable_convolution(conversion: Conversion, node: Node) -> None:
    _check_layout(node)
    if conversion.opset < _DEFORMABLE_FROM:
        raise OpsetTooOld(node, "deformable convolutions are defined", _DEFORMABLE_FROM)
    data, offsets, mask, weight, *bias = map(conversion.read, node.inputs)
    conversion.finish(
        node,
        "DeformConv",
        *(data, weight, offsets, bias[0] if bias else "", mask),
        kernel_shape=integers(node, "kernel"),
        strides=integers(node, "stride") or (1, 1),
        dilations=integers(node, "dilate") or (1, 1),
        pads=(integers(node, "pad") or (0, 0)) * 2,
        group=integer(node, "num_group", 1),
        offset_group=integer(node, "num_deformable_group", 1),
    )


def _without_mask(conversion: Conversion, node: Node) -> None:
    raise refused(node, "between the border and one pixel beyond it MXNet reads zeros, where ONNX interpolates")


def _transposed_convolution(conversion: Conversion, node: Node) -> None:
    _check_layout(node)
    if integers(node, "target_shape"):
        raise refused(node, "a target shape, which decides on the padding")
    kernel = integers(node, "kernel")
    rank = len(kernel)
    conversion.finish(
        node,
        "ConvTranspose",
        *map(conversion.read, node.inputs),
        kernel_shape=kernel,
        strides=integers(node, "stride") or (1,) * rank,
        dilations=integers(node, "dilate") or (1,) * rank,
        pads=(integers(node, "pad") or (0,) * rank) * 2,
        output_padding=integers(node, "adj") or (0,) * rank,
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


def _products(conversion: Conversion, node: Node) -> None:
    operands = []
    for place, tensor in enumerate(node.inputs):
        side = "ab"[place]
        operand = conversion.read(tensor)
        if flag(node, f"transpose_{side}"):
            *leading, rows, columns = range(len(conversion.shape(tensor)))
            operand = conversion.step(node, f"{side}_turned", "Transpose", operand, perm=(*leading, columns, rows))
        operands.append(operand)
    conversion.finish(node, "MatMul", *operands)


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


def _instance_norm(conversion: Conversion, node: Node) -> None:
    conversion.finish(
        node, "InstanceNormalization", *map(conversion.read, node.inputs), epsilon=number(node, "eps", 1e-3)
    )


def _layer_norm(conversion: Conversion, node: Node) -> None:
    """Ba et al. 2016, "Layer Normalization"; a single ONNX operator from opset 17 on."""
    if integer(node, "axis", -1) not in (-1, len(conversion.shape(node.inputs[0])) - 1):
        raise refused(node, f"it normalizes axis {node.attrs['axis']}, not the last")
    if flag(node, "output_mean_var"):
        raise refused(node, "it puts out its statistics")
    data, gamma, beta = map(conversion.read, node.inputs)
    epsilon = number(node, "eps", 1e-5)
    if conversion.opset >= 17:
        conversion.finish(node, "LayerNormalization", data, gamma, beta, axis=-1, epsilon=epsilon)
        return
    mean = _mean_of_last(conversion, node, "mean", data)
    deviations = conversion.step(node, "centred", "Sub", data, mean)
    squares = conversion.step(node, "squares", "Mul", deviations, deviations)
    variance = _mean_of_last(conversion, node, "variance", squares)
    safe = conversion.step(node, "safe", "Add", variance, conversion.floats(node, "eps", epsilon))
    normal = conversion.step(node, "normal", "Div", deviations, conversion.step(node, "deviation", "Sqrt", safe))
    conversion.finish(node, "Add", conversion.step(node, "scaled", "Mul", normal, gamma), beta)


def _mean_of_last(conversion: Conversion, node: Node, what: str, data: str) -> str:
    return conversion.step(node, what, "ReduceMean", data, axes=(-1,), keepdims=1)


def _l2_normalization(conversion: Conversion, node: Node) -> None:
    """Values over the root of the sum of squares: of their image, of all channels at their place, or of their map."""
    data, rank = conversion.read(node.inputs[0]), len(conversion.shape(node.inputs[0]))
    axes = {"instance": range(1, rank), "channel": range(1, 2), "spatial": range(2, rank)}
    summed = conversion.integers(node, "axes", axes[node.attrs.get("mode", "instance")])
    squares = conversion.step(node, "squares", "Mul", data, data)
    total = conversion.step(node, "total", "ReduceSum", squares, summed, keepdims=1)
    safe = conversion.step(node, "safe", "Add", total, conversion.floats(node, "eps", number(node, "eps", 1e-10)))
    conversion.finish(node, "Div", data, conversion.step(node, "root", "Sqrt", safe))


def _local_response(conversion: Conversion, node: Node) -> None:
    sizes = {"alpha": number(node, "alpha", 1e-4), "beta": number(node, "beta", 0.75), "bias": number(node, "knorm", 2)}
    conversion.finish(node, "LRN", conversion.read(node.inputs[0]), size=integer(node, "nsize", 1), **sizes)


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
    last = [-(-(x + 2 * p - k) // s) * s for x, k, s, p in zip(extents, kernel, strides, pads)]
    if convention == "full" and any(begin >= x + p for begin, x, p in zip(last, extents, pads)):
        raise refused(node, "its last window lies wholly in the padding, where ONNX has no window")
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
        raise OpsetTooOld(node, "averages over windows that overhang the border are defined", 19)
    included = int(flag(node, "count_include_pad", True))
    conversion.finish(node, "AveragePool", data, **attributes, count_include_pad=included)


def _adaptive_pooling(conversion: Conversion, node: Node) -> None:
    """Means over windows that may overlap: to more than one value, products with the matrices that take them."""
    extents, wanted = (conversion.shape(tensor)[2:] for tensor in (node.inputs[0], node.output))
    data = conversion.read(node.inputs[0])
    if set(wanted) == {1}:
        conversion.finish(node, "GlobalAveragePool", data)
        return
    rows, columns = map(_windows, extents, wanted)
    by_rows = conversion.step(node, "of_rows", "MatMul", conversion.constant(node, "rows", rows), data)
    conversion.finish(node, "MatMul", by_rows, conversion.constant(node, "columns", columns.T))


def _windows(extent: int, count: int) -> np.ndarray:
    """The matrix (count, extent) whose rows average windows, from i extent / count, rounded down, to the next, up."""
    matrix = np.zeros((count, extent), np.float32)
    for place, row in enumerate(matrix):
        window = slice(place * extent // count, -(-(place + 1) * extent // count))
        row[window] = 1 / (window.stop - window.start)
    return matrix


def _check_layout(node: Node) -> None:
    layout = node.attrs.get("layout", "None")
    if layout not in _CHANNELS_FIRST:
        raise refused(node, f"the layout {layout}, where ONNX has channels first")


LAYERS: Mapping[str, Converter] = {
    "Convolution": _convolution,
    "Deconvolution": _transposed_convolution,
    "_contrib_ModulatedDeformableConvolution": _deformable_convolution,
    "_contrib_DeformableConvolution": _without_mask,
    "FullyConnected": _dense,
    "batch_dot": _products,
    "BatchNorm": _batch_norm,
    "InstanceNorm": _instance_norm,
    "LayerNorm": _layer_norm,
    "L2Normalization": _l2_normalization,
    "LRN": _local_response,
    "Pooling": _pooling,
    "_contrib_AdaptiveAvgPooling2D": _adaptive_pooling,
}
