"""A convolution whose result is added to another tensor does the addition itself (oneDNN's post-operation sum)."""

from __future__ import annotations

from typing import Optional

from quantkit.fusion.draft import Draft
from quantkit.fusion.rewrite import Answer, Refusal, Replacement, Rule, Shapes, why_not_fusible
from quantkit.fusion.unit import Unit, extended, has_constant_weights, unit_of
from quantkit.graph.graph import Node, Tensor
from quantkit.graph.operators import ADDITIONS

NAME = "sum into the convolution"


def _fuse(draft: Draft, node: Node, shapes: Shapes) -> Answer:
    if node.op not in ADDITIONS or len(set(node.inputs)) < 2:
        return None
    refusals: list[Refusal] = []
    candidates: list[tuple[Unit, Tensor]] = []
    for own, other in (node.inputs, node.inputs[::-1]):
        unit = unit_of(draft.producer(own))
        if unit is None or not unit.is_convolution:
            continue
        if reason := _why_not(draft, unit, own, other, shapes):
            refusals.append(Refusal(NAME, node.name, reason))
        else:
            candidates.append((unit, other))
    if not candidates:
        return refusals[0] if refusals else None
    # Of two convolutions the later one adds: the other's result exists by then.
    unit, other = max(candidates, key=lambda pair: draft.place(pair[0].node))
    return Replacement((extended(unit, node, other),))


def _why_not(draft: Draft, unit: Unit, own: Tensor, other: Tensor, shapes: Shapes) -> Optional[str]:
    if not has_constant_weights(draft.params, unit):
        return f"the weights of {unit.node.name} are computed, not constant"
    if unit.addition is not None:
        return f"{unit.node.name} already ends in a sum"
    if not draft.depends_on_input(other):
        return f"{other} does not depend on the network's input, so it has no batch of its own"
    if shapes[own] != shapes[other]:
        return f"the shapes {shapes[own]} and {shapes[other]} differ"
    return why_not_fusible(draft, own)


RESIDUAL_SUM = Rule(NAME, _fuse)
