"""Max pooling before a concatenation instead of behind it, which then copies only what is left.

A maximum is that of one channel, so the result is the same to the last bit. SqueezeNet and GoogLeNet pool so.
"""

from __future__ import annotations

from dataclasses import replace

from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import Match, Replacement, Rule, Shapes, why_not_fusible
from quantkit.ir.graph import Node
from quantkit.ir.operators import flag, integer, integers

NAME = "pool before a concatenation"

_CHANNELS = 1
_LAYOUTS = ("None", "NCW", "NCHW", "NCDHW")


def _pooled_first(draft: Draft, node: Node, shapes: Shapes) -> Match:
    if node.op != "Pooling" or node.attrs.get("pool_type", "max") != "max" or not _shrinks(node):
        return None
    concat = draft.producer(node.inputs[0])
    if concat is None or concat.op != "Concat" or integer(concat, "dim", _CHANNELS) != _CHANNELS:
        return None
    if node.attrs.get("layout", "None") not in _LAYOUTS or any(each.node in draft.params for each in concat.inputs):
        return None
    # What others read has to be joined as it is.
    if why_not_fusible(draft, concat.output):
        return None
    parts = tuple(
        replace(node, name=draft.free_name(f"{node.name}_part{index}"), inputs=(tensor,))
        for index, tensor in enumerate(concat.inputs)
    )
    whole = replace(concat, name=node.name, inputs=tuple(part.output for part in parts))
    return Replacement((*parts, whole))


def _shrinks(pooling: Node) -> bool:
    return flag(pooling, "global_pool") or max(integers(pooling, "stride"), default=1) > 1


POOL_BEFORE_CONCAT = Rule(NAME, _pooled_first)
