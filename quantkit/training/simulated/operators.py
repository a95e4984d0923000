"""What each INT8 operator becomes in a training graph: operators that compute the integers of MXNet's kernels.

They are those of the kernels to the last one, on processors with VNNI. The interpreter in ``quantization.simulation``
is near, but not the same: it does not round biases, divides where kernels multiply by the inverse, and rounds a mean
after it is real. Sums of products are exact up to 2^24; of larger ones float32 keeps the first 24 bits.
"""

from __future__ import annotations

from math import prod
from typing import Optional

from quantkit.ir.fused_layer import FusedLayer, fused_layer_of
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.operators import flag, integers
from quantkit.quantization.arithmetic import LIMITS
from quantkit.training.simulated.draft import Integers, Scale, TrainingDraft
from quantkit.training.simulated.rounding import half_even, saturated, with_gradient_of
from quantkit.training.simulated.scaling import scaled
from quantkit.training.simulated.weights import integer_weights


def add_int8(draft: TrainingDraft, node: Node) -> None:
    """Add the operators that compute what a node of the fused network computes in INT8."""
    layer = fused_layer_of(node)
    if layer is not None:
        _add_layer(draft, layer)
    elif node.op == "Concat":
        _add_concat(draft, node)
    elif node.op in ("Pooling", "Flatten"):
        _add_following(draft, node)
    else:
        _add_addition(draft, node)


def _add_layer(draft: TrainingDraft, layer: FusedLayer) -> None:
    """A convolution or dense layer."""
    data, weight = draft.as_integers(layer.data), integer_weights(draft, layer)
    if draft.network.computes_integers(layer.node):
        draft.put_out(layer.node.output, _to_integers(draft, layer, data, weight))
    else:
        _to_real_numbers(draft, layer, data, weight)


def _to_integers(draft: TrainingDraft, layer: FusedLayer, data: Integers, weight: Integers) -> Integers:
    """What kernels that put out integers compute: bias, addend and result are rounded to whole steps.

    The arithmetic is that of MXNet's ``_sg_mkldnn_conv`` (src/operator/subgraph/mkldnn/mkldnn_conv.cc), in its order.
    """
    name, form, addend = layer.node.name, draft.network.form(layer.node.output), draft.network.addend_form(layer)
    scale, limits = draft.scale(layer.node.output, form), LIMITS[form.dtype]
    if addend is not None and (form.dtype, addend.dtype) == ("uint8", "int8"):
        # The unsigned result overwrites the signed addend, and saturates at 127.
        double = draft.op(f"{name}_coarse_step", "_mul_scalar", scale.step, scalar=2.0)
        half = draft.op(f"{name}_coarse_factor", "_div_scalar", scale.factor, scalar=2.0)
        scale, limits = Scale(double, half), (0, LIMITS["int8"][1])
    bias = None
    if layer.bias is not None:
        factor = draft.op(f"{name}_bias_factor", "broadcast_mul", weight.scale.factor, data.scale.factor)
        bias = draft.op(f"{name}_bias_steps", "elemwise_mul", layer.bias, factor)
        bias = half_even(draft, f"{name}_bias_int32", bias)
    sums = _sums(draft, layer, data, weight, bias)
    share = draft.op(f"{name}_data_share", "elemwise_div", scale.factor, data.scale.factor)
    share = draft.op(f"{name}_share", "broadcast_div", share, weight.scale.factor)
    result = scaled(draft, f"{name}_requantized", sums, share, _channels(draft, layer))
    if layer.addend is not None:
        result = _with_addend(draft, layer.addend, name, result, draft.as_integers(layer.addend, addend), scale)
    # Saturation is the activation: unsigned results end at 0, and the range of clipped ones where they are clipped.
    return Integers(saturated(draft, f"{name}_integers", result, *limits), scale)


def _with_addend(
    draft: TrainingDraft, tensor: Tensor, name: str, result: Tensor, addend: Integers, scale: Scale
) -> Tensor:
    """The sum of a result and integers in other units, multiplied and added with one rounding, as kernels do."""
    ratio = draft.op(f"{name}_addend_ratio", "elemwise_div", scale.factor, addend.scale.factor)
    added = draft.scaled(f"{name}_addend", tensor, addend.values, ratio)
    wide = [draft.op(f"{name}_wide", "Cast", each, dtype="float64") for each in (result, addend.values, ratio)]
    exact = draft.op(f"{name}_total", "elemwise_add", wide[0], draft.op(f"{name}_exact", "broadcast_mul", *wide[1:]))
    exact = draft.op(f"{name}_rounded_total", "Cast", exact, dtype="float32")
    return with_gradient_of(draft, f"{name}_sum", exact, draft.op(f"{name}_about", "elemwise_add", result, added))


def _to_real_numbers(draft: TrainingDraft, layer: FusedLayer, data: Integers, weight: Integers) -> None:
    """What dense layers compute that put out real numbers."""
    name = layer.node.name
    step = draft.op(f"{name}_sum_step", "broadcast_mul", weight.scale.step, data.scale.step)
    result = scaled(draft, f"{name}_real", _sums(draft, layer, data, weight), step, _channels(draft, layer))
    if layer.bias is not None:
        row = draft.op(f"{name}_bias_row", "Reshape", layer.bias, shape=(1, -1))
        result = draft.op(f"{name}_biased", "broadcast_add", result, row)
    if layer.addend is not None:
        added = draft.as_integers(layer.addend)
        real = draft.scaled(f"{name}_addend", layer.addend, added.values, added.scale.step)
        result = draft.op(f"{name}_total", "elemwise_add", result, real)
    if layer.activation is not None:
        draft.op(f"{name}_activated", layer.activation.op, result, **layer.activation.attrs)
    draft.name_last(name)


def _sums(
    draft: TrainingDraft, layer: FusedLayer, data: Integers, weight: Integers, bias: Optional[Tensor] = None
) -> Tensor:
    """The products of integers, added up."""
    inputs = (data.values, weight.values, *(() if bias is None else (bias,)))
    attrs = {**layer.core.attrs, "no_bias": str(bias is None)}
    return draft.op(f"{layer.node.name}_sums", layer.core.op, *inputs, **attrs)


def _channels(draft: TrainingDraft, layer: FusedLayer) -> int:
    return len(draft.graph.params[layer.weight.node])


def _add_following(draft: TrainingDraft, node: Node) -> None:
    """A pooling or flattening of integers."""
    data = draft.as_integers(node.inputs[0])
    if node.op == "Pooling" and node.attrs.get("pool_type", "max") == "avg":
        values = half_even(draft, f"{node.name}_integers", _mean(draft, node, data.values))
    else:
        values = draft.op(f"{node.name}_integers", node.op, data.values, **node.attrs)
    draft.put_out(node.output, Integers(values, data.scale))


def _mean(draft: TrainingDraft, node: Node, values: Tensor) -> Tensor:
    """An average pooling of integers as a sum and a division: MXNet's own adds up inexact fractions at borders."""
    attrs = {**node.attrs, "pool_type": "sum"}
    total = draft.op(f"{node.name}_total", "Pooling", values, **attrs)
    if flag(node, "count_include_pad", default=True):
        return draft.op(f"{node.name}_mean", "_div_scalar", total, scalar=float(prod(integers(node, "kernel"))))
    one = values
    for axis in (0, 1):
        one = draft.op(f"{node.name}_one_map", "slice_axis", one, axis=axis, begin=0, end=1)
    count = draft.op(f"{node.name}_count", "Pooling", draft.op(f"{node.name}_ones", "ones_like", one), **attrs)
    return draft.op(f"{node.name}_mean", "broadcast_div", total, count)


def _add_concat(draft: TrainingDraft, node: Node) -> None:
    """A concatenation of integers, each of its parts brought to the common scale first."""
    form = draft.network.form(node.output)
    scale, limits = draft.scale(node.output, form), LIMITS[form.dtype]
    parts = []
    for place, tensor in enumerate(node.inputs):
        name, part = f"{node.name}_part{place}", draft.as_integers(tensor)
        if part.scale == scale:
            parts.append(part.values)
        else:
            parts.append(saturated(draft, name, draft.rescaled(name, tensor, part, scale), *limits))
    joined = draft.op(f"{node.name}_integers", node.op, *parts, **node.attrs)
    draft.put_out(node.output, Integers(joined, scale))


def _add_addition(draft: TrainingDraft, node: Node) -> None:
    form = draft.network.form(node.output)
    scale = draft.scale(node.output, form)
    parts = [
        draft.rescaled(f"{node.name}_part{place}", tensor, draft.as_integers(tensor), scale)
        for place, tensor in enumerate(node.inputs)
    ]
    total = draft.op(f"{node.name}_total", node.op, *parts, **node.attrs)
    values = saturated(draft, f"{node.name}_integers", total, *LIMITS[form.dtype])
    draft.put_out(node.output, Integers(values, scale))
