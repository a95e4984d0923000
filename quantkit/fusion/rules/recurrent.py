"""Recurrent layers batch first: ``RNN`` with its states, between exchanges of the first two axes.

An LSTM of several layers or directions becomes one operator for each of them, since each is quantized by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rewriting.rule import Bypass, Match, Rejection, Replacement, Rule, Shapes
from quantkit.fusion.rules.final_state import final_states, takes_apart
from quantkit.fusion.rules.initial_states import initial_states, states_obstacle, states_of
from quantkit.fusion.rules.recurrent_parts import Parts, layer_name, one_by_one
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.operators import flag
from quantkit.ir.recurrent_layer import (
    GATES,
    Matrices,
    RecurrentLayer,
    exchanges_batch,
    final_cell,
    fused_recurrent,
    layer_matrices,
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
    states = initial_states(draft, node)
    read = [tensor for tensor in (Tensor(node.name, 1), Tensor(node.name, 2)) if _is_read(draft, tensor)]
    reads_cell = Tensor(node.name, 2) in read
    whole = fused_recurrent(name, node, data.output, node.inputs[1], states.tensors, reads_cell)
    last = swapped(node.name, whole.output, node.origin)
    if not read:
        return Replacement((data, *states.nodes, whole, last))
    parts = Parts(draft, RecurrentLayer(whole))
    layers = one_by_one(draft, RecurrentLayer(whole), parts)
    if layers is None:
        return Rejection(NAME, node.name, "its parameters do not fit its layers")
    ends, moved = final_states(draft, node, layers, read)
    return Replacement((data, *states.nodes, *parts.nodes, *ends, last), parts.params, moved)


def _obstacle(draft: Draft, node: Node) -> Optional[str]:
    if node.attrs.get("mode") not in GATES:
        return "its mode is unknown"
    if node.inputs[1].node not in draft.params:
        return "its weights are computed, not constant"
    if obstacle := states_obstacle(draft, states_of(node)):
        return obstacle
    if _is_read(draft, Tensor(node.name, 1)) and not takes_apart(node):
        return "its final states are read"
    if flag(node, "use_sequence_length"):
        return "it has lengths of sequences"
    if any(node.attrs.get(f"lstm_state_clip_{bound}", "None") != "None" for bound in ("min", "max")):
        return "its states are clipped"
    return None


def _is_read(draft: Draft, tensor: Tensor) -> bool:
    return bool(draft.readers(tensor)) or draft.is_output(tensor)


def _one_by_one(draft: Draft, node: Node, shapes: Shapes) -> Match:
    layer = recurrent_layer_of(node)
    if layer is None or layer.mode != "lstm" or layer.layers * layer.directions == 1:
        return None
    weights = layer_matrices(draft.params, layer)
    if weights is None:
        return Rejection(SPLIT, node.name, "its parameters do not fit its layers")
    split = _Split(draft, layer)
    stream = layer.data
    for number, directions in enumerate(weights):
        stream = split.layer(stream, directions, number)
    return Replacement(tuple(split.parts.nodes), split.parts.params, split.moved)


class _Split:
    """The operators for the layers so far, one for each direction."""

    def __init__(self, draft: Draft, whole: RecurrentLayer) -> None:
        self.parts = Parts(draft, whole)
        self.moved: dict[Tensor, Tensor] = {}
        self._whole = whole

    def layer(self, data: Tensor, directions: Sequence[Matrices], number: int) -> Tensor:
        parts, name, place = self.parts, layer_name(self._whole, number), number * len(directions)
        if len(directions) == 1:
            return parts.layer(data, directions, place, name).node.output
        ahead = parts.layer(data, directions[:1], place, f"{name}_forward")
        turned = parts.operator(f"{name}_reversed", "reverse", (data,), {"axis": "1"})
        behind = parts.layer(turned, directions[1:], place + 1, f"{name}_backward")
        returned = parts.operator(f"{name}_returned", "reverse", (behind.node.output,), {"axis": "1"})
        if self._whole.puts_out_cell:
            # Only a single layer does: where final states are read, layers come one by one.
            cells = (self._final_cell(ahead), self._final_cell(behind))
            whole = parts.operator(f"{name}_final_cell", "Concat", cells, {"dim": "1", "num_args": "2"})
            self.moved[self._whole.final_cell] = whole
        return parts.operator(name, "Concat", (ahead.node.output, returned), {"dim": "2", "num_args": "2"})

    def _final_cell(self, layer: RecurrentLayer) -> Tensor:
        node = final_cell(self.parts.free_name(f"{layer.node.name}_final_cell"), layer)
        self.parts.nodes.append(node)
        return node.output


def _swap_twice(draft: Draft, node: Node, shapes: Shapes) -> Match:
    if not exchanges_batch(node):
        return None
    first = draft.producer(node.inputs[0])
    return Bypass(first.inputs[0]) if first is not None and exchanges_batch(first) else None


RECURRENT_BATCH_FIRST = Rule(NAME, _batch_first)
RECURRENT_ONE_BY_ONE = Rule(SPLIT, _one_by_one)
DROP_DOUBLE_SWAP = Rule("leave out two exchanges of axes after each other", _swap_twice)
