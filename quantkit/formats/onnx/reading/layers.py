"""Layers with weights: convolution, dense. After the ONNX operator specification."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Optional

import numpy as np

from quantkit.formats.onnx.reading.construction import Attr, Construction, Converter, reshaped
from quantkit.formats.onnx.reading.values import (
    BATCH,
    Computed,
    Constant,
    OnnxNode,
    Refused,
    Shape,
    broadcast,
    in_batch,
    shown,
)
from quantkit.formats.onnx.reading.windows import Windows, listed, padded, windows_of
from quantkit.formats.repeated import in_memory
from quantkit.ir.graph import Tensor
from quantkit.ir.operators import integers


def _convolution(state: Construction, node: OnnxNode) -> None:
    data, weight = state.computed(node), state.weights(node, 1)
    group, filters, kernel = node.integer("group", 1), weight.shape[0], weight.shape[2:]
    _check_weight(node, data, weight)
    _check_groups(data, weight, group)
    data, windows = _outer_padding(state, data, windows_of(node, data.shape[2:], kernel))
    pad = windows.begin
    if not windows.symmetric:
        data = padded(state, node, data, windows.begin, windows.end, 0.0)
        pad = (0,) * len(kernel)
    bias = _bias(state, node, 2, filters)
    state.finish(
        node,
        "Convolution",
        [data.tensor, state.parameter(weight.name, weight.array), *bias],
        (data.shape[0], filters, *windows.result),
        kernel=kernel,
        stride=windows.strides,
        dilate=windows.dilations,
        pad=pad,
        num_filter=filters,
        num_group=group,
        no_bias=not bias,
    )


def _check_groups(data: Computed, weight: Constant, group: int) -> None:
    if group < 1 or data.shape[1] != weight.shape[1] * group or weight.shape[0] % group:
        raise Refused(f"its weight of shape {weight.shape} in {group} groups does not fit input {shown(data.shape)}")


def _deformable_convolution(state: Construction, node: OnnxNode) -> None:
    data, weight, offsets = state.computed(node), state.weights(node, 1), state.computed(node, 2)
    group, sets, kernel = node.integer("group", 1), node.integer("offset_group", 1), weight.shape[2:]
    _check_weight(node, data, weight)
    filters = weight.shape[0]
    _check_groups(data, weight, group)
    if len(kernel) != 2:
        raise Refused(f"its kernel has {len(kernel)} extents; deformable convolutions of images alone are read")
    if sets < 1 or data.shape[1] % sets:
        raise Refused(f"its {sets} sets of offsets do not fit the {data.shape[1]} channels of its input")
    windows = windows_of(node, data.shape[2:], kernel)
    pad = windows.begin
    if not windows.symmetric:
        data, pad = padded(state, node, data, windows.begin, windows.end, 0.0), (0, 0)
    places = (data.shape[0], sets * prod(kernel), *windows.result)
    mask, share = _mask(state, node, offsets, places)
    for what, value, expected in (
        ("offsets", offsets, (places[0], 2 * places[1], *places[2:])),
        ("mask", mask, places),
    ):
        if value.shape != expected:
            raise Refused(f"its {what} of shape {shown(value.shape)} should have {shown(expected)}")
    if share != 1:
        state.budget.take(4 * weight.array.size)
        weight = Constant(f"{node.name}_weight", weight.array * np.float32(share))
    bias = _bias(state, node, 3, filters)
    state.finish(
        node,
        "_contrib_ModulatedDeformableConvolution",
        [data.tensor, offsets.tensor, mask.tensor, state.parameter(weight.name, weight.array), *bias],
        (data.shape[0], filters, *windows.result),
        kernel=kernel,
        stride=windows.strides,
        dilate=windows.dilations,
        pad=pad,
        num_filter=filters,
        num_group=group,
        num_deformable_group=sets,
        im2col_step=1,
        no_bias=not bias,
    )


def _mask(state: Construction, node: OnnxNode, offsets: Computed, shape: Shape) -> tuple[Computed, float]:
    """The mask, and a factor for the weight.

    Ones if the file has no mask, because MXNet's operator without one treats borders differently; or if the mask is one
    number everywhere, which then is the factor.
    """
    value, share = state.value(node, 4), 1.0
    if isinstance(value, Computed):
        return value, share
    if value is not None:
        found = in_memory(value.array).reshape(-1)
        fits = value.shape[1:] == shape[1:] and value.shape[:1] in ((BATCH,), (state.fixed,))
        if not fits or found.size == 0 or np.any(found != found[0]):
            raise Refused("its mask is a constant that is not the same everywhere")
        share = float(found[0])
    half = state.step(node, "places", "slice_axis", [offsets.tensor], shape, axis=1, begin=0, end=shape[1])
    return state.step(node, "ones", "ones_like", [half.tensor], shape), share


def _outer_padding(state: Construction, data: Computed, windows: Windows) -> tuple[Computed, Windows]:
    """Merge a separate operator that pads with zeros (as Keras writes it) into the layer, if the layer can pad that."""
    before = state.nodes.get(data.tensor.node)
    if before is None or before.op != "Pad" or before.attrs["mode"] != "constant":
        return data, windows
    widths = integers(before, "pad_width")[4:]
    begin = tuple(map(sum, zip(windows.begin, widths[::2])))
    end = tuple(map(sum, zip(windows.end, widths[1::2])))
    if float(before.attrs["constant_value"]) != 0.0 or begin != end or before.name in state.outputs:
        return data, windows
    extents = tuple(extent - one - other for extent, one, other in zip(data.shape[2:], widths[::2], widths[1::2]))
    inner = Computed(before.inputs[0], (*data.shape[:2], *extents))
    return inner, Windows(windows.kernel, windows.strides, windows.dilations, begin, end, windows.result)


def _transposed_convolution(state: Construction, node: OnnxNode) -> None:
    data, weight = state.computed(node), state.weights(node, 1)
    group, kernel = node.integer("group", 1), weight.shape[2:]
    _check_weight(node, data, weight)
    if group < 1 or data.shape[1] != weight.shape[0] or data.shape[1] % group:
        raise Refused(f"its weight of shape {weight.shape} in {group} groups does not fit input {shown(data.shape)}")
    rank, filters = len(kernel), weight.shape[1] * group
    strides, dilations = listed(node, "strides", rank, 1), listed(node, "dilations", rank, 1)
    extra = listed(node, "output_padding", rank, 0)
    if min(strides + dilations) < 1 or any(not 0 <= each < stride for each, stride in zip(extra, strides)):
        raise Refused(f"its strides {strides}, dilations {dilations} and output padding {extra} do not go together")
    # The extents of the result before cropping.
    full = tuple(
        (extent - 1) * stride + (size - 1) * dilation + 1 + more
        for extent, stride, size, dilation, more in zip(data.shape[2:], strides, kernel, dilations, extra)
    )
    begin, end = _cut(node, data.shape[2:], full, strides)
    result = tuple(extent - before - behind for extent, before, behind in zip(full, begin, end))
    bias = _bias(state, node, 2, filters)
    inputs = [data.tensor, state.parameter(weight.name, weight.array), *bias]
    attrs: dict[str, Attr] = {
        "kernel": kernel, "stride": strides, "dilate": dilations, "adj": extra, "num_filter": filters,
        "num_group": group, "no_bias": not bias,
    }  # fmt: skip
    if begin == end:
        state.finish(node, "Deconvolution", inputs, (data.shape[0], filters, *result), pad=begin, **attrs)
        return
    whole = state.step(
        node, "whole", "Deconvolution", inputs, (data.shape[0], filters, *full), pad=(0,) * rank, **attrs
    )
    limits = (
        [str(each) for each in ("None", "None", *begin)],
        [str(each) for each in ("None", "None", *map(sum, zip(begin, result)))],
    )
    first, last = (f"({', '.join(each)})" for each in limits)
    state.finish(node, "slice", [whole.tensor], (*whole.shape[:2], *result), begin=first, end=last)


def _cut(node: OnnxNode, extents: Shape, full: Shape, strides: Shape) -> tuple[Shape, Shape]:
    """How much is cropped from a transposed convolution's result, before and behind."""
    rank = len(full)
    automatic, wanted = node.text("auto_pad", "NOTSET"), node.integers("output_shape")
    if automatic == "VALID" or (automatic == "NOTSET" and wanted is None):
        pads = (0,) * 2 * rank if automatic == "VALID" else listed(node, "pads", 2 * rank, 0)
        if min(pads) < 0:
            raise Refused(f"its padding {pads} is negative")
        return pads[:rank], pads[rank:]
    if wanted is None:
        wanted = tuple(extent * stride for extent, stride in zip(extents, strides))
    totals = [extent - asked for extent, asked in zip(full, wanted[-rank:])]
    if len(totals) != rank or min(totals) < 0:
        raise Refused(f"its result of {full} cannot have the wanted size {wanted}")
    small, large = tuple(each // 2 for each in totals), tuple(each - each // 2 for each in totals)
    return (small, large) if automatic == "SAME_UPPER" else (large, small)


def _check_weight(node: OnnxNode, data: Computed, weight: Constant) -> None:
    rank = weight.array.ndim
    if rank not in (3, 4, 5) or len(data.shape) != rank:
        raise Refused(f"its weight has shape {weight.shape} and its input {shown(data.shape)}; 1 to 3 axes are read")
    if (node.integers("kernel_shape") or weight.shape[2:]) != weight.shape[2:]:
        raise Refused(f"its kernel_shape {node.integers('kernel_shape')} is not that of its weight {weight.shape}")


def _bias(state: Construction, node: OnnxNode, position: int, count: int) -> list[Tensor]:
    bias = state.constant(node, position)
    if bias is None:
        return []
    if bias.shape != (count,):
        raise Refused(f"its bias has shape {bias.shape} where {(count,)} is expected")
    return [state.parameter(bias.name, bias.array)]


def _gemm(state: Construction, node: OnnxNode) -> None:
    data, weight, bias = state.computed(node), state.weights(node, 1), state.value(node, 2)
    if node.integer("transA", 0) or len(data.shape) != 2 or weight.array.ndim != 2:
        raise Refused("it multiplies other than an image's features with a weight")
    rows, alpha = weight.array, np.float32(node.number("alpha", 1.0))
    name = weight.name
    if not node.integer("transB", 0):
        rows, name = rows.T, f"{node.name}_weight"
    if alpha != 1:
        state.budget.take(4 * rows.size)
        rows, name = rows * alpha, f"{node.name}_weight"
    beta = np.float32(node.number("beta", 1.0))
    if bias is None:
        _dense(state, node, data, Constant(name, rows), None)
        return
    if isinstance(bias, Computed) or broadcast(bias.shape, (1, len(rows))) != (1, len(rows)):
        raise Refused("what it adds is not a constant for each of its units")
    values = bias.array.reshape(-1)
    if beta != 1:
        state.budget.take(4 * values.size)
        values = values * beta
    own = bias.name if beta == 1 and bias.shape == (len(rows),) else f"{node.name}_bias"
    _dense(state, node, data, Constant(name, rows), Constant(own, np.broadcast_to(values, len(rows))))


def _product(state: Construction, node: OnnxNode) -> None:
    data, other = state.computed(node), state.value(node, 1)
    if isinstance(other, Computed):
        _computed_product(state, node, data, other)
        return
    weight = state.weights(node, 1)
    if weight.array.ndim != 2 or len(data.shape) < 2:
        raise Refused(f"it multiplies {shown(data.shape)} with a constant of shape {weight.shape}")
    _dense(state, node, data, Constant(f"{node.name}_weight", weight.array.T), None)


def _computed_product(state: Construction, node: OnnxNode, left: Computed, right: Computed) -> None:
    """The products of two matrices for each image, as attention takes them."""
    if not _is_batched(left.shape, right.shape):
        raise Refused(
            f"it multiplies {shown(left.shape)} with {shown(right.shape)}, which is not one matrix product or several "
            "for each image"
        )
    *leading, rows, _ = left.shape
    columns = right.shape[-1]
    if len(leading) == 1:
        state.finish(node, "batch_dot", [left.tensor, right.tensor], (*leading, rows, columns))
        return
    count = prod(leading)
    flat = [
        reshaped(state, node, value, (count, *value.shape[-2:]), what)
        for what, value in (("left", left), ("right", right))
    ]
    products = state.step(node, "products", "batch_dot", [each.tensor for each in flat], (count, rows, columns))
    reshaped(state, node, products, (*leading, rows, columns))


def _is_batched(left: Shape, right: Shape) -> bool:
    """Whether matrices of these shapes are multiplied pair by pair, the images of the batch being the first axis."""
    if len(left) < 3 or (*left[:-2], left[-1]) != right[:-1]:
        return False
    first = in_batch(left[0]) if len(left) == 3 else left[0] == BATCH
    return first and not any(map(in_batch, (*left[1:], right[-1])))


def _dense(state: Construction, node: OnnxNode, data: Computed, weight: Constant, bias: Optional[Constant]) -> None:
    units, features = weight.shape
    if data.shape[-1] != features:
        raise Refused(f"its weight for {features} features does not fit input {shown(data.shape)}")
    inputs = [data.tensor, state.parameter(weight.name, weight.array)]
    if bias is not None:
        inputs.append(state.parameter(bias.name, bias.array))
    state.finish(
        node,
        "FullyConnected",
        inputs,
        (*data.shape[:-1], units),
        num_hidden=units,
        no_bias=bias is None,
        flatten=len(data.shape) == 2,
    )


LAYERS: Mapping[str, Converter] = {
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "DeformConv": _deformable_convolution,
    "Gemm": _gemm,
    "MatMul": _product,
}
