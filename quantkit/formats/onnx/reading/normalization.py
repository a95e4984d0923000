"""Normalizations over channels, groups and axes. After the ONNX operator specification."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from quantkit.formats.onnx.reading.construction import Construction, Converter, reshaped
from quantkit.formats.onnx.reading.elementwise import combined
from quantkit.formats.onnx.reading.values import Computed, Constant, OnnxNode, Refused, axis_of, in_batch, shown

# In place of a norm of zero, so that a vector of zeros stays one.
_SMALLEST = float(np.finfo(np.float32).tiny)


def _batch_norm(state: Construction, node: OnnxNode) -> None:
    data = state.computed(node)
    if _trains(state, node):
        raise Refused("it is in training mode; export the network for inference")
    if not node.integer("spatial", 1):
        raise Refused("it has parameters for each place of an image (spatial=0), and the engine for each channel")
    parameters = [state.weights(node, position) for position in range(1, 5)]
    if len(data.shape) < 2 or any(each.shape != data.shape[1:2] for each in parameters):
        raise Refused(f"its parameters do not fit input {shown(data.shape)}")
    inputs = [state.parameter(each.name, each.array) for each in parameters]
    state.finish(
        node, "BatchNorm", [data.tensor, *inputs], data.shape, eps=node.number("epsilon", 1e-5), fix_gamma=False
    )


def _trains(state: Construction, node: OnnxNode) -> bool:
    """Whether a batch normalization computes statistics: from opset 7 to 13 its number of outputs says so."""
    if state.opset < 7:
        return not node.integer("is_test", 0) or any(node.outputs[1:])
    if state.opset < 14:
        return len(node.outputs) > 1
    return bool(node.integer("training_mode", 0)) or any(node.outputs[1:])


def _instance_norm(state: Construction, node: OnnxNode) -> None:
    data, parameters = state.computed(node), [state.weights(node, 1), state.weights(node, 2)]
    if len(data.shape) < 3 or any(each.shape != data.shape[1:2] for each in parameters):
        raise Refused(f"its parameters do not fit input {shown(data.shape)}")
    inputs = [state.parameter(each.name, each.array) for each in parameters]
    state.finish(node, "InstanceNorm", [data.tensor, *inputs], data.shape, eps=node.number("epsilon", 1e-5))


def _group_norm(state: Construction, node: OnnxNode) -> None:
    """Wu and He 2018, "Group Normalization": each group as an instance, then scale and shift of the channels."""
    data, parameters = state.computed(node), [state.weights(node, 1), state.weights(node, 2)]
    groups = node.integer("num_groups")
    fits = all(each.shape == data.shape[1:2] for each in parameters)
    if len(data.shape) < 3 or groups < 1 or data.shape[1] % groups or not fits:
        raise Refused(f"its {groups} groups or its parameters do not fit input {shown(data.shape)}")
    state.budget.take(16 * groups)
    flat = reshaped(state, node, data, (data.shape[0], groups, prod(data.shape[1:]) // groups), "groups")
    neutral = [state.parameter(f"{node.name}_{name}", np.full(groups, value)) for name, value in _NEUTRAL.items()]
    epsilon = node.number("epsilon", 1e-5)
    normal = state.step(node, "normal", "InstanceNorm", [flat.tensor, *neutral], flat.shape, eps=epsilon)
    whole = reshaped(state, node, normal, data.shape, "whole")
    scale, shift = (Constant(each.name, each.array.reshape(-1, *[1] * (len(data.shape) - 2))) for each in parameters)
    combined("Add", state, node, combined("Mul", state, node, whole, scale, "scaled"), shift)


_NEUTRAL = {"ones": 1.0, "zeros": 0.0}


def _layer_norm(state: Construction, node: OnnxNode) -> None:
    data, scale, shift = state.computed(node), state.weights(node, 1), state.constant(node, 2)
    axis = axis_of(node.integer("axis", -1), len(data.shape))
    normalized = data.shape[axis:]
    if any(map(in_batch, normalized)):
        raise Refused("it normalizes over the batch")
    state.budget.take(8 * prod(normalized))
    gamma = np.broadcast_to(scale.array, normalized).reshape(-1)
    beta = np.zeros_like(gamma) if shift is None else np.broadcast_to(shift.array, normalized).reshape(-1)
    names = scale.name, f"{node.name}_bias" if shift is None else shift.name
    inputs = [state.parameter(name, array) for name, array in zip(names, (gamma, beta))]
    epsilon = node.number("epsilon", 1e-5)
    if any(node.outputs[1:]):
        _statistics(state, node, data, axis, epsilon)
    if len(normalized) == 1:
        state.finish(node, "LayerNorm", [data.tensor, *inputs], data.shape, axis=-1, eps=epsilon)
        return
    flat = reshaped(state, node, data, (*data.shape[:axis], prod(normalized)), "flat")
    normal = state.step(node, "normal", "LayerNorm", [flat.tensor, *inputs], flat.shape, axis=-1, eps=epsilon)
    reshaped(state, node, normal, data.shape)


def _statistics(state: Construction, node: OnnxNode, data: Computed, axis: int, epsilon: float) -> None:
    """The further outputs of a layer normalization: the mean, and one over the standard deviation."""
    axes = tuple(range(axis, len(data.shape)))
    shape = (*data.shape[:axis], *[1] * len(axes))
    mean = state.step(node, "average", "mean", [data.tensor], shape, axis=axes, keepdims=True)
    if node.outputs[1]:
        state.part(node, 1, "_copy", [mean.tensor], shape)
    if len(node.outputs) > 2 and node.outputs[2]:
        centred = state.step(node, "centred", "broadcast_sub", [data.tensor, mean.tensor], data.shape)
        squares = state.step(node, "squares", "square", [centred.tensor], data.shape)
        variance = state.step(node, "variance", "mean", [squares.tensor], shape, axis=axes, keepdims=True)
        shifted = state.step(node, "shifted", "_plus_scalar", [variance.tensor], shape, scalar=epsilon)
        deviation = state.step(node, "deviation", "sqrt", [shifted.tensor], shape)
        state.part(node, 2, "reciprocal", [deviation.tensor], shape)


def _lp_norm(state: Construction, node: OnnxNode) -> None:
    data, order = state.computed(node), node.integer("p", 2)
    axis = axis_of(node.integer("axis", -1), len(data.shape))
    if in_batch(data.shape[axis]) or order not in (1, 2):
        raise Refused(f"it divides by the norm of order {order} along axis {axis} of {shown(data.shape)}")
    shape = (*data.shape[:axis], 1, *data.shape[axis + 1 :])
    sizes = state.step(node, "sizes", "abs" if order == 1 else "square", [data.tensor], data.shape)
    norm = state.step(node, "total", "sum", [sizes.tensor], shape, axis=(axis,), keepdims=True)
    if order == 2:
        norm = state.step(node, "root", "sqrt", [norm.tensor], shape)
    divisor = state.step(node, "norm", "_maximum_scalar", [norm.tensor], shape, scalar=_SMALLEST)
    state.finish(node, "broadcast_div", [data.tensor, divisor.tensor], data.shape)


def _local_response(state: Construction, node: OnnxNode) -> None:
    data = state.computed(node)
    size = node.integer("size")
    if len(data.shape) != 4:
        raise Refused(f"it reads {shown(data.shape)}, and the engine images alone")
    if not 1 <= size < 2 * data.shape[1] or size % 2 == 0:
        raise Refused(f"it sums over {size} channels; the engine sums over an odd number, of those that there are")
    state.finish(
        node,
        "LRN",
        [data.tensor],
        data.shape,
        nsize=size,
        alpha=node.number("alpha", 1e-4),
        beta=node.number("beta", 0.75),
        knorm=node.number("bias", 1.0),
    )


NORMALIZATION: Mapping[str, Converter] = {
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": _instance_norm,
    "GroupNormalization": _group_norm,
    "LayerNormalization": _layer_norm,
    "LpNormalization": _lp_norm,
    "LRN": _local_response,
}
