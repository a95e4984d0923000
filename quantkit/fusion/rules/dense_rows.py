"""Dense layers that follow each other stay in the form of rows: what reshapes between them goes.

Such are layers over the last axis, and those that 1x1 convolutions over one pixel become.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import Bypass, Match, Replacement, Rule, Shapes, why_not_fusible
from quantkit.ir.fused_layer import fused_layer_of
from quantkit.ir.graph import Node
from quantkit.ir.operators import activation_kind, flag, integer, integers

_RESHAPE = "Reshape"


def _before_reshape(draft: Draft, node: Node, shapes: Shapes) -> Match:
    whole = draft.producer(node.inputs[0]) if activation_kind(node) else None
    if whole is None or whole.op != _RESHAPE or _width(draft.producer(whole.inputs[0])) is None:
        return None
    if why_not_fusible(draft, whole.output) or why_not_fusible(draft, whole.inputs[0]):
        return None
    rows = replace(node, name=draft.free_name(f"{node.name}_rows"), inputs=whole.inputs)
    return Replacement((rows, Node(node.name, _RESHAPE, (rows.output,), whole.attrs, node.origin)))


def _rows_again(draft: Draft, node: Node, shapes: Shapes) -> Match:
    whole = draft.producer(node.inputs[0]) if node.op == _RESHAPE else None
    if whole is None or whole.op != _RESHAPE:
        return None
    width = _made_width(draft, whole)
    return Bypass(whole.inputs[0]) if width is not None and integers(node, "shape") == (-1, width) else None


def _read_as_rows(draft: Draft, node: Node, shapes: Shapes) -> Match:
    if _width(node) is None:
        return None
    whole, weight = draft.producer(node.inputs[0]), draft.params.get(node.inputs[1].node)
    if whole is None or whole.op != _RESHAPE or weight is None or _made_width(draft, whole) != weight.shape[1]:
        return None
    return Replacement((replace(node, inputs=(whole.inputs[0], *node.inputs[1:])),))


def _made_width(draft: Draft, whole: Node) -> Optional[int]:
    """The width of the rows of a dense layer, with its activation, that are reshaped; None where it reads others."""
    made = draft.producer(whole.inputs[0])
    return _width(draft.producer(made.inputs[0]) if made is not None and activation_kind(made) else made)


def _width(node: Optional[Node]) -> Optional[int]:
    """The width of the rows that a dense layer puts out; None for other nodes."""
    layer = fused_layer_of(node)
    if layer is None or layer.is_convolution or not flag(layer.core, "flatten", default=True):
        return None
    return integer(layer.core, "num_hidden", 0)


ACTIVATION_OVER_ROWS = Rule("activation before the reshape of a dense layer's rows", _before_reshape)
DROP_ROWS_AGAIN = Rule("leave out reshapes between dense layers over rows", _rows_again)
READ_AS_ROWS = Rule("rows of a dense layer straight to the next one", _read_as_rows)
