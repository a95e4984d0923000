"""The final state of recurrent layers, which is the result of their last step.

A layer that runs backward comes to the first step last. Layers after each other are taken apart, so that each shows its
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np

from quantkit.fusion.rewriting.draft import Draft
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.operators import integer
from quantkit.ir.recurrent_layer import RECURRENT, RecurrentLayer, feature_count, flat_layer, matrices, swapped


@dataclass(frozen=True, eq=False)
class OneByOne:
    """Recurrent layers batch first, one operator for each of them, and their parameters."""

    layers: tuple[RecurrentLayer, ...]
    params: dict[str, np.ndarray]

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(layer.node for layer in self.layers)


def takes_apart(rnn: Node) -> bool:
    """Whether the layers of an ``RNN`` may run one by one: LSTM layers do anyway, other ones together are faster."""
    return rnn.attrs["mode"] == "lstm" or integer(rnn, "num_layers", 1) == 1


def one_by_one(draft: Draft, whole: RecurrentLayer) -> Optional[OneByOne]:
    """The layers of ``whole``, the last with its name; None if its parameters do not fit."""
    if whole.layers == 1:
        return OneByOne((whole,), {})
    flat = draft.params[whole.parameters.node]
    features = feature_count(whole, flat.size)
    if features is None:
        return None
    layers: list[RecurrentLayer] = []
    params: dict[str, np.ndarray] = {}
    stream, attrs = whole.data, {**whole.node.attrs, "num_layers": "1"}
    for number, directions in enumerate(matrices(whole, flat, features)):
        is_last = number == whole.layers - 1
        name = whole.node.name if is_last else draft.free_name(f"{whole.node.name}_{number}")
        parameters = draft.free_name(f"{name}_parameters")
        params[parameters] = flat_layer(directions)
        layers.append(RecurrentLayer(Node(name, RECURRENT, (stream, Tensor(parameters)), attrs, whole.node.origin)))
        stream = Tensor(name)
    return OneByOne(tuple(layers), params)


def final_state(draft: Draft, rnn: Node, apart: OneByOne) -> list[Node]:
    """Operators whose last puts out the final state of all layers and directions, (layers x directions, batch, hidden).

    Args:
        draft: the network.
        rnn: the operator that the layers stand for.
        apart: the layers.
    """
    nodes: list[Node] = []

    def add(name: str, op: str, inputs: Sequence[Tensor], attrs: dict[str, str]) -> Tensor:
        nodes.append(Node(draft.free_name(f"{rnn.name}_{name}"), op, tuple(inputs), attrs, rnn.origin))
        return nodes[-1].output

    parts = []
    for number, layer in enumerate(apart.layers):
        for direction in range(layer.directions):
            here, result = f"final_{number}_{direction}", layer.node.output
            if layer.directions > 1:
                units = {"begin": str(direction * layer.hidden), "end": str((direction + 1) * layer.hidden)}
                result = add(f"{here}_units", "slice_axis", [result], {"axis": "2", **units})
            step = {"begin": "-1", "end": "None"} if direction == 0 else {"begin": "0", "end": "1"}
            parts.append(add(here, "slice_axis", [result], {"axis": "1", **step}))
    whole = parts[0]
    if len(parts) > 1:
        whole = add("final", "Concat", parts, {"dim": "1", "num_args": str(len(parts))})
    nodes.append(swapped(draft.free_name(f"{rnn.name}_final_state"), whole, rnn.origin))
    return nodes
