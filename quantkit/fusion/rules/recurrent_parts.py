"""Recurrent layers taken apart: an operator for each layer, or for each layer and direction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np

from quantkit.fusion.rewriting.draft import Draft
from quantkit.fusion.rules.initial_states import states_of_part
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.recurrent_layer import (
    RECURRENT,
    Matrices,
    RecurrentLayer,
    flat_layer,
    layer_matrices,
)


class Parts:
    """The operators that take the place of recurrent layers, so far.

    Args:
        draft: the network.
        whole: the layers.

    Attributes:
        nodes: the parts, and the operators that take their initial states out of those of ``whole``.
        params: their parameters.
    """

    def __init__(self, draft: Draft, whole: RecurrentLayer) -> None:
        """Start with no parts."""
        self.nodes: list[Node] = []
        self.params: dict[str, np.ndarray] = {}
        self._draft, self._whole = draft, whole

    def layer(self, data: Tensor, directions: Sequence[Matrices], place: int, name: str) -> RecurrentLayer:
        """Add one layer.

        Args:
            data: what it reads.
            directions: the weights of its directions, one or two.
            place: of the first of them in ``whole``, counting layers, and directions in each layer.
            name: of its operator; that of ``whole`` may be taken again.
        """
        name = self.free_name(name)
        parameters = self._draft.free_name(f"{name}_parameters")
        self.params[parameters] = flat_layer(directions)
        states = states_of_part(self._draft, self._whole, name, place, len(directions))
        attrs = {**self._whole.node.attrs, "num_layers": "1", "bidirectional": str(len(directions) > 1)}
        inputs = (data, Tensor(parameters), *states.tensors)
        node = Node(name, RECURRENT, inputs, attrs, self._whole.node.origin)
        self.nodes += [*states.nodes, node]
        return RecurrentLayer(node)

    def operator(self, name: str, op: str, inputs: tuple[Tensor, ...], attrs: dict[str, str]) -> Tensor:
        """Add an operator between layers."""
        self.nodes.append(Node(self.free_name(name), op, inputs, attrs, self._whole.node.origin))
        return self.nodes[-1].output

    def free_name(self, name: str) -> str:
        """A free name, or that of ``whole``."""
        return name if name == self._whole.node.name else self._draft.free_name(name)


def one_by_one(draft: Draft, whole: RecurrentLayer, parts: Parts) -> Optional[tuple[RecurrentLayer, ...]]:
    """The layers of ``whole``, the last with its name, added to ``parts``; None if its parameters do not fit."""
    if whole.layers == 1:
        parts.nodes.append(whole.node)
        return (whole,)
    weights = layer_matrices(draft.params, whole)
    if weights is None:
        return None
    layers: list[RecurrentLayer] = []
    for number, directions in enumerate(weights):
        data = layers[-1].node.output if layers else whole.data
        layers.append(parts.layer(data, directions, number * whole.directions, layer_name(whole, number)))
    return tuple(layers)


def layer_name(whole: RecurrentLayer, number: int) -> str:
    """What a layer of ``whole`` is called: the last is known by the name of ``whole``."""
    return whole.node.name if number == whole.layers - 1 else f"{whole.node.name}_{number}"
