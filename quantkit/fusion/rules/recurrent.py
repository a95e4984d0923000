"""Recurrent layers batch first: ``RNN`` with its states of zero, between exchanges of the first two axes.

An LSTM of several layers or directions becomes one operator for each of them, since each is quantized by itself.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import Bypass, Match, Rejection, Replacement, Rule, Shapes
from quantkit.fusion.rules.final_state import final_state, one_by_one, takes_apart
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.operators import flag
from quantkit.ir.recurrent_layer import (
    GATES,
    RECURRENT,
    Matrices,
    RecurrentLayer,
    exchanges_batch,
    feature_count,
    fused_recurrent,
    matrices,
    part_names,
    recurrent_layer_of,
    swapped,
)

NAME = "recurrent layers batch first"
SPLIT = "LSTM layers one by one"


def _batch_first(draft: Draft, node: Node, shapes: Shapes) -> Match:
    if node.op != "RNN":
        return None
    if reason := _obstacle(draft, node):
        return Rejection(NAME, node.name, reason)
    data = swapped(draft.free_name(f"{node.name}_batch_first"), node.inputs[0], node.origin)
    name = draft.free_name(f"{node.name}_fused")
    if any(draft.free_name(part) != part for part in part_names(name)):
        return Rejection(NAME, node.name, "other operators have the names of its parts")
    whole = fused_recurrent(name, node, data.output, node.inputs[1])
    last = swapped(node.name, whole.output, node.origin)
    if not _is_read(draft, Tensor(node.name, 1)):
        return Replacement((data, whole, last))
    apart = one_by_one(draft, RecurrentLayer(whole))
    if apart is None:
        return Rejection(NAME, node.name, "its parameters do not fit its layers")
    state = final_state(draft, node, apart)
    return Replacement((data, *apart.nodes, *state, last), apart.params, {Tensor(node.name, 1): state[-1].output})


def _obstacle(draft: Draft, node: Node) -> Optional[str]:
    if node.attrs.get("mode") not in GATES:
        return "its mode is unknown"
    if node.inputs[1].node not in draft.params:
        return "its weights are computed, not constant"
    if any(not _is_zero(draft, state) for state in node.inputs[2:]):
        return "its initial states are given"
    if _is_read(draft, Tensor(node.name, 2)):
        return "the final state of its cells is read"
    if _is_read(draft, Tensor(node.name, 1)) and not takes_apart(node):
        return "its final states are read"
    if flag(node, "use_sequence_length"):
        return "it has lengths of sequences"
    if any(node.attrs.get(f"lstm_state_clip_{bound}", "None") != "None" for bound in ("min", "max")):
        return "its states are clipped"
    return None


def _is_read(draft: Draft, tensor: Tensor) -> bool:
    return bool(draft.readers(tensor)) or draft.is_output(tensor)


def _is_zero(draft: Draft, state: Tensor) -> bool:
    made = draft.producer(state)
    if made is not None:
        return made.op == "_zeros"
    value = draft.params.get(state.node)
    return value is not None and not value.any()


def _one_by_one(draft: Draft, node: Node, shapes: Shapes) -> Match:
    layer = recurrent_layer_of(node)
    if layer is None or layer.mode != "lstm" or layer.layers * layer.directions == 1:
        return None
    flat = draft.params[layer.parameters.node]
    features = feature_count(layer, flat.size)
    if features is None:
        return Rejection(SPLIT, node.name, "its parameters do not fit its layers")
    split = _Split(draft, layer)
    stream = layer.data
    for number, directions in enumerate(matrices(layer, flat, features)):
        is_last = number == layer.layers - 1
        stream = split.layer(stream, directions, node.name if is_last else f"{node.name}_{number}")
    return Replacement(tuple(split.nodes), split.params)


class _Split:
    """The operators and parameters for the layers so far."""

    def __init__(self, draft: Draft, whole: RecurrentLayer) -> None:
        self.nodes: list[Node] = []
        self.params: dict[str, np.ndarray] = {}
        self._draft, self._whole = draft, whole

    def layer(self, data: Tensor, directions: list[Matrices], name: str) -> Tensor:
        if len(directions) == 1:
            return self._direction(data, directions[0], name)
        forth, back = directions
        ahead = self._direction(data, forth, f"{name}_forward")
        turned = self._add(f"{name}_reversed", "reverse", (data,), {"axis": "1"})
        behind = self._direction(turned, back, f"{name}_backward")
        returned = self._add(f"{name}_returned", "reverse", (behind,), {"axis": "1"})
        return self._add(name, "Concat", (ahead, returned), {"dim": "2", "num_args": "2"})

    def _direction(self, data: Tensor, weights: Matrices, name: str) -> Tensor:
        parameters = self._draft.free_name(f"{name}_parameters")
        self.params[parameters] = weights.flat
        one = {"num_layers": "1", "bidirectional": "False"}
        return self._add(name, RECURRENT, (data, Tensor(parameters)), {**self._whole.node.attrs, **one})

    def _add(self, name: str, op: str, inputs: tuple[Tensor, ...], attrs: dict[str, str]) -> Tensor:
        free = name if name == self._whole.node.name else self._draft.free_name(name)
        self.nodes.append(Node(free, op, inputs, attrs, self._whole.node.origin))
        return Tensor(free)


def _swap_twice(draft: Draft, node: Node, shapes: Shapes) -> Match:
    if not exchanges_batch(node):
        return None
    first = draft.producer(node.inputs[0])
    return Bypass(first.inputs[0]) if first is not None and exchanges_batch(first) else None


RECURRENT_BATCH_FIRST = Rule(NAME, _batch_first)
RECURRENT_ONE_BY_ONE = Rule(SPLIT, _one_by_one)
DROP_DOUBLE_SWAP = Rule("leave out two exchanges of axes after each other", _swap_twice)
