"""A dense layer over the last axis of several as one over the rows of a matrix, the form that has an INT8 kernel."""

from __future__ import annotations

from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import Match, Rejection, Replacement, Rule, Shapes
from quantkit.ir.graph import Node
from quantkit.ir.operators import flag

NAME = "dense layer over the last axis as one over rows"


def _over_rows(draft: Draft, node: Node, shapes: Shapes) -> Match:
    if node.op != "FullyConnected" or flag(node, "flatten", default=True):
        return None
    # Rewrites keep the shape of what they replace, and so of this layer's own result.
    batch, *between, width = shapes[node.output]
    if not between:
        return None
    if batch != 1 or 1 in between[:1]:
        return Rejection(NAME, node.name, "the batch is not the first axis of its input")
    weight = draft.params.get(node.inputs[1].node)
    if weight is None:
        return Rejection(NAME, node.name, "its weights are computed, not constant")
    rows = Node(
        draft.free_name(f"{node.name}_rows"),
        "Reshape",
        node.inputs[:1],
        {"shape": f"(-1, {weight.shape[1]})"},
    )
    dense = Node(
        draft.free_name(f"{node.name}_dense"),
        node.op,
        (rows.output, *node.inputs[1:]),
        {**node.attrs, "flatten": "True"},
        node.origin,
    )
    shape = ", ".join(map(str, (-1, *between, width)))
    return Replacement((rows, dense, Node(node.name, "Reshape", (dense.output,), {"shape": f"({shape})"})))


DENSE_OVER_ROWS = Rule(NAME, _over_rows)
