"""Operators that do nothing at inference are left out."""

from __future__ import annotations

from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import Bypass, Match, Rule, Shapes
from quantkit.ir.graph import Node

_IDENTITIES = frozenset({"_copy", "BlockGrad"})


def _drop(draft: Draft, node: Node, shapes: Shapes) -> Match:
    if node.op in _IDENTITIES or (node.op == "Dropout" and node.attrs.get("mode") != "always"):
        return Bypass(node.inputs[0])
    return None


DROP_IDENTITY = Rule("leave out what does nothing at inference", _drop)
