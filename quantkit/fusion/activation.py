"""A pointwise activation after a convolution or dense layer becomes part of that layer (post-operation eltwise)."""

from __future__ import annotations

from quantkit.fusion.draft import Draft
from quantkit.fusion.rewrite import Answer, Refusal, Replacement, Rule, Shapes, why_not_fusible
from quantkit.fusion.unit import extended, has_constant_weights, unit_of
from quantkit.graph.graph import Node
from quantkit.graph.operators import activation_kind

NAME = "activation into the layer before"

# What both engine generations fuse, in FP32 and INT8 alike, with the same result.
_FUSIBLE = frozenset({"relu", "relu6"})


def _fuse(draft: Draft, node: Node, shapes: Shapes) -> Answer:
    kind = activation_kind(node)
    unit = unit_of(draft.producer(node.inputs[0])) if kind else None
    if unit is None:
        return None
    if kind not in _FUSIBLE:
        return Refusal(NAME, node.name, f"the engine's INT8 layers have no {kind}")
    if not has_constant_weights(draft.params, unit):
        return Refusal(NAME, node.name, f"the weights of {unit.node.name} are computed, not constant")
    if unit.activation is not None:
        return Refusal(NAME, node.name, f"{unit.node.name} already ends in an activation")
    if kind == "relu6" and unit.addition is not None:
        return Refusal(NAME, node.name, "the engine cannot clip after a fused sum")
    if reason := why_not_fusible(draft, node.inputs[0]):
        return Refusal(NAME, node.name, reason)
    return Replacement((extended(unit, node),))


ACTIVATION = Rule(NAME, _fuse)
