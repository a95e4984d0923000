"""A convolution whose result is added to another tensor does the addition itself (oneDNN's post-operation sum)."""

from __future__ import annotations

from typing import Optional

from quantkit.backends.mxnet.capabilities import missing_kernel
from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import Match, Rejection, Replacement, Rule, Shapes, why_not_fusible
from quantkit.ir.fused_layer import FusedLayer, extended, fused_layer_of, has_constant_weights
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.operators import ADDITIONS

NAME = "sum into the convolution"


def _fuse(draft: Draft, node: Node, shapes: Shapes) -> Match:
    if node.op not in ADDITIONS or len(set(node.inputs)) < 2:
        return None
    rejections: list[Rejection] = []
    candidates: list[tuple[FusedLayer, Tensor]] = []
    for own, other in (node.inputs, node.inputs[::-1]):
        layer = fused_layer_of(draft.producer(own))
        if layer is None or not layer.is_convolution:
            continue
        if reason := _why_not(draft, layer, own, other, shapes):
            rejections.append(Rejection(NAME, node.name, reason))
        else:
            candidates.append((layer, other))
    if not candidates:
        return rejections[0] if rejections else None
    # Of two convolutions the later one adds: the other's result exists by then.
    layer, other = max(candidates, key=lambda pair: draft.place(pair[0].node))
    return Replacement((extended(layer, node, other),))


def _why_not(draft: Draft, layer: FusedLayer, own: Tensor, other: Tensor, shapes: Shapes) -> Optional[str]:
    if not has_constant_weights(draft.params, layer):
        return f"the weights of {layer.node.name} are computed, not constant"
    if layer.addition is not None:
        return f"{layer.node.name} already ends in a sum"
    if not draft.depends_on_input(other):
        return f"{other} does not depend on the network's input, so it has no batch of its own"
    if shapes[own] != shapes[other]:
        return f"the shapes {shapes[own]} and {shapes[other]} differ"
    return missing_kernel(layer) or why_not_fusible(draft, own)


RESIDUAL_SUM = Rule(NAME, _fuse)
