"""Sequences that are split into their steps and stacked again, as around unrolled cells, are read as they are."""

from __future__ import annotations

from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import Bypass, Match, Replacement, Rule, Shapes
from quantkit.fusion.rules.step_sequences import whole_sequence
from quantkit.ir.graph import Node
from quantkit.ir.operators import integer
from quantkit.ir.recurrent_layer import swapped


def _stack_again(draft: Draft, node: Node, shapes: Shapes) -> Match:
    whole = whole_sequence(draft, node.inputs) if node.op == "stack" else None
    if whole is None:
        return None
    axes = len(shapes[node.output])
    before, after = whole.axis(axes), integer(node, "axis", 0) % axes
    if before == after and not whole.backward:
        return Bypass(whole.tensor)
    if before != after and {before, after} != {0, 1}:
        return None
    nodes: list[Node] = []
    tensor = whole.tensor
    if whole.backward:
        name = node.name if before == after else draft.free_name(f"{node.name}_reversed")
        nodes.append(Node(name, "reverse", (tensor,), {"axis": str(before)}, node.origin))
        tensor = nodes[-1].output
    if before != after:
        nodes.append(swapped(node.name, tensor, node.origin))
    return Replacement(tuple(nodes))


DROP_SPLIT_AND_STACK = Rule("leave out splits into steps that are stacked again", _stack_again)
