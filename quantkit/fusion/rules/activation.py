"""A pointwise activation after a convolution or dense layer becomes part of that layer (post-operation eltwise)."""

from __future__ import annotations

from quantkit.backends.mxnet.capabilities import missing_kernel
from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import Match, Rejection, Replacement, Rule, Shapes, why_not_fusible
from quantkit.ir.fused_layer import extended, fused_layer_of, has_constant_weights
from quantkit.ir.graph import Node
from quantkit.ir.operators import activation_kind

NAME = "activation into the layer before"

# The activations that both engine generations fuse in FP32 and INT8 with the same result.
_FUSIBLE = frozenset({"relu", "relu6"})


def _fuse(draft: Draft, node: Node, shapes: Shapes) -> Match:
    kind = activation_kind(node)
    layer = fused_layer_of(draft.producer(node.inputs[0])) if kind else None
    if layer is None:
        return None
    if kind not in _FUSIBLE:
        return Rejection(NAME, node.name, f"the engine's INT8 layers have no {kind}")
    if not has_constant_weights(draft.params, layer):
        return Rejection(NAME, node.name, f"the weights of {layer.node.name} are computed, not constant")
    if layer.activation is not None:
        return Rejection(NAME, node.name, f"{layer.node.name} already ends in an activation")
    if kind == "relu6" and layer.addition is not None:
        return Rejection(NAME, node.name, "the engine cannot clip after a fused sum")
    if reason := missing_kernel(layer) or why_not_fusible(draft, node.inputs[0]):
        return Rejection(NAME, node.name, reason)
    return Replacement((extended(layer, node),))


ACTIVATION = Rule(NAME, _fuse)
