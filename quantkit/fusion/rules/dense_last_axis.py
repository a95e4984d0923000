"""A dense layer over the last axis of several as one over the rows of a matrix, the form that has an INT8 kernel."""

from __future__ import annotations

from dataclasses import replace

from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import Match, Rejection, Replacement, Rule, Shapes
from quantkit.ir.graph import Node
from quantkit.ir.operators import flag
from quantkit.ir.recurrent_layer import exchanges_batch, swapped

NAME = "dense layer over the last axis as one over rows"


def _over_rows(draft: Draft, node: Node, shapes: Shapes) -> Match:
    if node.op != "FullyConnected" or flag(node, "flatten", default=True):
        return None
    # Rewrites keep the shape of what they replace, and so of this layer's own result.
    *outer, width = shapes[node.output]
    if len(outer) == 1:
        return Replacement((replace(node, attrs={**node.attrs, "flatten": "True"}),))
    data, made = node.inputs[0], draft.producer(node.inputs[0])
    batch = draft.batch_axes.get(node.output)
    steps_first = made is not None and exchanges_batch(made) and batch == (1,)
    if made is not None and steps_first:
        data, outer = made.inputs[0], [outer[1], outer[0], *outer[2:]]
    elif batch != (0,):
        return Rejection(NAME, node.name, "the batch is not the first axis of its input")
    weight = draft.params.get(node.inputs[1].node)
    if weight is None:
        return Rejection(NAME, node.name, "its weights are computed, not constant")
    name = draft.free_name(f"{node.name}_batch_first") if steps_first else node.name
    matrix = {"shape": f"(-1, {weight.shape[1]})"}
    rows = Node(draft.free_name(f"{node.name}_rows"), "Reshape", (data,), matrix, node.origin)
    dense = Node(
        draft.free_name(f"{node.name}_dense"),
        node.op,
        (rows.output, *node.inputs[1:]),
        {**node.attrs, "flatten": "True"},
        node.origin,
    )
    shape = ", ".join(map(str, (-1, *outer[1:], width)))
    whole = Node(name, "Reshape", (dense.output,), {"shape": f"({shape})"}, node.origin)
    return Replacement((rows, dense, whole, *([swapped(node.name, whole.output, node.origin)] if steps_first else [])))


DENSE_OVER_ROWS = Rule(NAME, _over_rows)
