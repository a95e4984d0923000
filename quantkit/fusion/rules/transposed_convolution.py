"""A transposed convolution as a convolution of subpixels, which has an INT8 kernel, and a rearrangement of its result.

Shi et al. 2016, "Is the deconvolution layer the same as a convolutional layer?" (arXiv 1609.07009). With stride s, the
result at s * q + a is a sum over the inputs at q, q - 1, ... with every s-th weight from the a-th on: a convolution for
each a. Their channels, side by side, are rearranged to a map s times as large; the padding is cut off there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Optional

import numpy as np

from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import Match, Rejection, Replacement, Rule, Shapes, why_not_fusible
from quantkit.fusion.rules.batch_norm import scale_and_shift
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.operators import activation_kind, flag, integer, integers

FOLD_NAME = "fold batch normalization into the transposed convolution before"
NAME = "transposed convolution as a convolution of subpixels"
EARLIER_NAME = "activation before the rearrangement of subpixels"

_ACTIVATIONS = frozenset({"relu", "relu6"})

# How many times as many weights the convolution may have: where strides are far larger than the kernel, nearly all of
# them are 0, and take memory out of proportion to the network.
_MOST_TIMES = 4


def _fold(draft: Draft, node: Node, shapes: Shapes) -> Match:
    layer = draft.producer(node.inputs[0]) if node.op == "BatchNorm" else None
    if layer is None or layer.op != "Deconvolution" or integer(node, "axis", 1) != 1:
        return None
    if reason := why_not_fusible(draft, node.inputs[0]):
        return Rejection(FOLD_NAME, node.name, reason)
    affine, (weight, bias) = scale_and_shift(draft, node), _parameters(draft, layer)
    if affine is None or weight is None or bias is None:
        return Rejection(FOLD_NAME, node.name, "its parameters or the weights before it are not constants")
    scale, shift = affine
    # Weights are (inputs, filters of a group, *kernel), the inputs of a group beside each other.
    groups = integer(layer, "num_group", 1)
    scaled = weight.reshape(groups, -1, *weight.shape[1:]) * scale.reshape(groups, 1, -1, *[1] * (weight.ndim - 2))
    folded = {
        draft.free_name(f"{node.name}_weight"): scaled.reshape(weight.shape).astype(np.float32),
        draft.free_name(f"{node.name}_bias"): (bias * scale + shift).astype(np.float32),
    }
    whole = replace(
        layer,
        name=node.name,
        inputs=(layer.inputs[0], *map(Tensor, folded)),
        attrs={**layer.attrs, "no_bias": "False"},
        origin=layer.origin + node.origin,
    )
    return Replacement((whole,), folded)


def _as_convolution(draft: Draft, node: Node, shapes: Shapes) -> Match:
    if node.op != "Deconvolution":
        return None
    weight, bias = _parameters(draft, node)
    stride, kernel, pad = (integers(node, key) for key in ("stride", "kernel", "pad"))
    if weight is None or bias is None:
        return Rejection(NAME, node.name, "its weights are computed, not constant")
    if integer(node, "num_group", 1) != 1:
        return Rejection(NAME, node.name, "it has groups")
    if any(integers(node, "target_shape")):
        return Rejection(NAME, node.name, "its padding follows from the size of its result")
    if len(kernel) != 2 or len(stride) != 2 or stride[0] != stride[1] or stride[0] < 2:
        return Rejection(NAME, node.name, "it does not enlarge rows and columns alike")
    if any(size != 1 for size in integers(node, "dilate")) or node.attrs.get("layout", "NCHW") not in ("NCHW", "None"):
        return Rejection(NAME, node.name, "it is dilated, or has another layout than NCHW")
    size = stride[0]
    taps = tuple(-(-extent // size) for extent in kernel)
    if size**2 * prod(taps) > _MOST_TIMES * prod(kernel):
        return Rejection(NAME, node.name, "most weights of that convolution would be 0")
    reached = (size * (extent + tap - 1) for extent, tap in zip(shapes[node.inputs[0]][2:], taps))
    cut = [
        (first, extent - first - kept) for extent, first, kept in zip(reached, pad or (0, 0), shapes[node.output][2:])
    ]
    if min(after for _, after in cut) < 0:
        return Rejection(NAME, node.name, "it puts out more than its weights reach")
    filters = weight.shape[1]
    params: dict[str, np.ndarray] = {draft.free_name(f"{node.name}_subpixels_weight"): _subpixels(weight, size, taps)}
    if not flag(node, "no_bias", default=True):
        params[draft.free_name(f"{node.name}_subpixels_bias")] = np.tile(bias, size**2).astype(np.float32)
    attrs = {
        "kernel": str(taps),
        "pad": str(tuple(tap - 1 for tap in taps)),
        "num_filter": str(filters * size**2),
        "no_bias": str(len(params) == 1),
    }
    inputs = (node.inputs[0], *map(Tensor, params))
    convolution = Node(draft.free_name(f"{node.name}_subpixels"), "Convolution", inputs, attrs, node.origin)
    return Replacement((convolution, *_rearranged(draft, node, convolution.output, size, cut)), params)


def _earlier(draft: Draft, node: Node, shapes: Shapes) -> Match:
    """An activation of a rearranged map computes the same before, where it can become part of the layer."""
    if activation_kind(node) not in _ACTIVATIONS:
        return None
    chain: list[Node] = []
    tensor = node.inputs[0]
    while (made := draft.producer(tensor)) is not None and made.op in _MOVES[len(chain) :]:
        if why_not_fusible(draft, tensor):
            return None
        chain.append(made)
        tensor = made.inputs[0]
    if made is None or made.op != "Convolution" or not chain or chain[-1].op != "depth_to_space":
        return None
    if reason := why_not_fusible(draft, tensor):
        return Rejection(EARLIER_NAME, node.name, reason)
    nodes = [replace(node, name=draft.free_name(f"{node.name}_subpixels"), inputs=(tensor,))]
    for each in reversed(chain):
        name = node.name if each is chain[0] else draft.free_name(f"{node.name}_enlarged")
        nodes.append(replace(each, name=name, inputs=(nodes[-1].output,), origin=each.origin + node.origin))
    return Replacement(tuple(nodes))


_MOVES = ("slice", "depth_to_space")


def _parameters(draft: Draft, node: Node) -> tuple[Optional[np.ndarray], Optional[np.ndarray]]:
    """Weight and bias; a bias that it lacks is 0."""
    weight = draft.params.get(node.inputs[1].node)
    if flag(node, "no_bias", default=True):
        return weight, np.zeros(1)
    return weight, draft.params.get(node.inputs[2].node)


def _subpixels(weight: np.ndarray, size: int, taps: tuple[int, ...]) -> np.ndarray:
    """The weight of the convolutions: (size * size * filters, inputs, *taps), from (inputs, filters, rows, columns)."""
    inputs, filters, *kernel = weight.shape
    rows, columns = taps
    beyond = [(0, size * tap - extent) for tap, extent in zip(taps, kernel)]
    whole = np.pad(weight, [(0, 0), (0, 0), *beyond]).reshape(inputs, filters, rows, size, columns, size)
    # A convolution reads from the first input on, a transposed one from the last.
    turned = whole[:, :, ::-1, :, ::-1, :].transpose(3, 5, 1, 0, 2, 4)
    return np.ascontiguousarray(turned.reshape(size * size * filters, inputs, rows, columns), np.float32)


def _rearranged(
    draft: Draft, node: Node, tensor: Tensor, size: int, cut: Sequence[tuple[int, int]]
) -> tuple[Node, ...]:
    """The enlarged map, named as ``node``, without the first and last rows and columns that are to be cut off."""
    enlarged = Node(node.name, "depth_to_space", (tensor,), {"block_size": str(size)}, node.origin)
    if not any(map(any, cut)):
        return (enlarged,)
    enlarged = replace(enlarged, name=draft.free_name(f"{node.name}_enlarged"))
    begins = (None, None, *(before for before, _ in cut))
    ends = (None, None, *(-after or None for _, after in cut))
    attrs = {"begin": str(begins), "end": str(ends)}
    return enlarged, Node(node.name, "slice", (enlarged.output,), attrs, node.origin)


FOLD_INTO_TRANSPOSED = Rule(FOLD_NAME, _fold)
TRANSPOSED_CONVOLUTION = Rule(NAME, _as_convolution)
ACTIVATION_OF_SUBPIXELS = Rule(EARLIER_NAME, _earlier)
