"""The parameters of recurrent layers, which Gluon stores one by one and puts together at every run, as one vector."""

from __future__ import annotations

import numpy as np

from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import Match, Replacement, Rule, Shapes
from quantkit.ir.graph import Node, Tensor

NAME = "parameters of recurrent layers as one vector"


def _put_together(draft: Draft, node: Node, shapes: Shapes) -> Match:
    if node.op != "RNN":
        return None
    made = draft.producer(node.inputs[1])
    if made is None or made.op != "_rnn_param_concat":
        return None
    parts = [_vector(draft, tensor) for tensor in made.inputs]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    name = draft.free_name(f"{node.name}_parameters")
    inputs = (node.inputs[0], Tensor(name), *node.inputs[2:])
    rnn = Node(node.name, node.op, inputs, node.attrs, node.origin)
    return Replacement((rnn,), {name: np.concatenate(known)})


def _vector(draft: Draft, tensor: Tensor) -> np.ndarray | None:
    """A parameter that is read as it is, or flattened."""
    made = draft.producer(tensor)
    if made is not None and made.op == "Reshape" and made.attrs.get("shape", "").strip("()[], ") == "-1":
        tensor = made.inputs[0]
    value = draft.params.get(tensor.node)
    return None if value is None else value.ravel()


RECURRENT_PARAMETERS = Rule(NAME, _put_together)
