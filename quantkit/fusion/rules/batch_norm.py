"""Batch normalization at inference is a scale and a shift per channel: folded where possible, else a convolution.

With the moving averages mean and var, ``y = gamma * (x - mean) / sqrt(var + eps) + beta``
(Ioffe & Szegedy, "Batch Normalization", 2015, algorithm 2).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

import numpy as np

from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import Match, Rejection, Replacement, Rule, Shapes, why_not_fusible
from quantkit.ir.fused_layer import fused_layer_of, has_constant_weights
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.operators import flag, integer, number

FOLD_NAME = "fold batch normalization into the layer before"
CONVOLUTION_NAME = "batch normalization as a depthwise convolution"

# Each layer keeps the names of all operators that it stands for, and so does each intermediate one.
_MOST_FOLDED = 100


def scale_and_shift(draft: Draft, node: Node) -> Optional[tuple[np.ndarray, np.ndarray]]:
    """Per-channel (scale, shift), float64, shape (channels,); None if a parameter is not a constant."""
    values = [draft.params.get(tensor.node) for tensor in node.inputs[1:5]]
    if any(value is None for value in values):
        return None
    gamma, beta, mean, variance = (np.asarray(value, np.float64) for value in values)
    if flag(node, "fix_gamma", default=True):
        gamma = np.ones_like(gamma)
    scale = gamma / np.sqrt(variance + number(node, "eps", 1e-3))
    return scale, beta - mean * scale


def _fold(draft: Draft, node: Node, shapes: Shapes) -> Match:
    layer = fused_layer_of(draft.producer(node.inputs[0])) if node.op == "BatchNorm" else None
    if layer is None or layer.node.body is not None:
        return None
    if len(layer.node.origin) >= _MOST_FOLDED:
        return Rejection(FOLD_NAME, node.name, f"{layer.node.name} stands for {_MOST_FOLDED} operators already")
    if integer(node, "axis", 1) != 1:
        return Rejection(FOLD_NAME, node.name, f"it normalises axis {node.attrs['axis']}, not the channels")
    if reason := why_not_fusible(draft, node.inputs[0]):
        return Rejection(FOLD_NAME, node.name, reason)
    affine = scale_and_shift(draft, node)
    if affine is None or not has_constant_weights(draft.params, layer):
        return Rejection(FOLD_NAME, node.name, "its parameters or the weights before it are not constants")
    if not layer.is_convolution and len(shapes[node.inputs[0]]) != 2:
        return Rejection(FOLD_NAME, node.name, "the dense layer before it keeps further axes")
    scale, shift = affine
    weight = draft.params[layer.weight.node]
    bias = np.float64(0) if layer.bias is None else draft.params[layer.bias.node]
    folded = {
        draft.free_name(f"{node.name}_weight"): (weight * scale.reshape(-1, *[1] * (weight.ndim - 1))).astype(
            np.float32
        ),
        draft.free_name(f"{node.name}_bias"): (bias * scale + shift).astype(np.float32),
    }
    core = replace(
        layer.core,
        name=node.name,
        inputs=(layer.data, *(Tensor(name) for name in folded)),
        attrs={**layer.core.attrs, "no_bias": "False"},
        origin=layer.node.origin + node.origin,
    )
    return Replacement((core,), folded)


def _as_convolution(draft: Draft, node: Node, shapes: Shapes) -> Match:
    if node.op != "BatchNorm" or len(shapes[node.inputs[0]]) != 4 or integer(node, "axis", 1) != 1:
        return None
    if node.inputs[0].node in draft.inputs:
        return Rejection(CONVOLUTION_NAME, node.name, "it normalises the network's input, which is not quantized yet")
    affine = scale_and_shift(draft, node)
    if affine is None:
        return Rejection(CONVOLUTION_NAME, node.name, "its parameters are not constants")
    scale, shift = affine
    channels = len(scale)
    params = {
        draft.free_name(f"{node.name}_weight"): scale.reshape(channels, 1, 1, 1).astype(np.float32),
        draft.free_name(f"{node.name}_bias"): shift.astype(np.float32),
    }
    attrs = {"kernel": "(1, 1)", "num_filter": str(channels), "num_group": str(channels), "no_bias": "False"}
    inputs = (node.inputs[0], *(Tensor(name) for name in params))
    return Replacement((replace(node, op="Convolution", inputs=inputs, attrs=attrs),), params)


FOLD_BATCH_NORM = Rule(FOLD_NAME, _fold)
BATCH_NORM_AS_CONVOLUTION = Rule(CONVOLUTION_NAME, _as_convolution)
