"""The final states of recurrent layers, that of the cells among them.

The final state is the result of the last step. A layer that runs backward comes to the first step last. Layers after
each other are taken apart, so that each shows its result.
"""

from __future__ import annotations

from collections.abc import Sequence

from quantkit.fusion.rewriting.draft import Draft
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.operators import integer
from quantkit.ir.recurrent_layer import RecurrentLayer, final_cell, swapped


def takes_apart(rnn: Node) -> bool:
    """Whether the layers of an ``RNN`` may run one by one: LSTM layers do anyway, other ones together are faster."""
    return rnn.attrs["mode"] == "lstm" or integer(rnn, "num_layers", 1) == 1


class _Ends:
    """Operators for the final states of the layers that take the place of an ``RNN``.

    States of all layers and directions are of shape (layers x directions, batch, hidden).
    """

    def __init__(self, draft: Draft, rnn: Node, layers: Sequence[RecurrentLayer]) -> None:
        self.nodes: list[Node] = []
        self._draft, self._rnn, self._layers = draft, rnn, layers

    def state(self) -> Tensor:
        """The final state."""
        parts = []
        for number, layer in enumerate(self._layers):
            for direction in range(layer.directions):
                here, result = f"final_{number}_{direction}", layer.node.output
                if layer.directions > 1:
                    units = {"begin": str(direction * layer.hidden), "end": str((direction + 1) * layer.hidden)}
                    result = self._add(f"{here}_units", "slice_axis", [result], {"axis": "2", **units})
                step = {"begin": "-1", "end": "None"} if direction == 0 else {"begin": "0", "end": "1"}
                parts.append(self._add(here, "slice_axis", [result], {"axis": "1", **step}))
        return self._joined("final", parts)

    def cell(self) -> Tensor:
        """The final state of the cells of LSTM layers."""
        parts = []
        for number, layer in enumerate(self._layers):
            if layer.directions == 1:
                self.nodes.append(final_cell(self._free(f"final_cell_{number}"), layer))
                parts.append(self.nodes[-1].output)
            else:
                # The rule that makes a layer of each direction puts both cells' states in its place.
                parts.append(layer.final_cell)
        return self._joined("final_cell", parts)

    def _joined(self, name: str, parts: Sequence[Tensor]) -> Tensor:
        whole = parts[0]
        if len(parts) > 1:
            whole = self._add(name, "Concat", parts, {"dim": "1", "num_args": str(len(parts))})
        self.nodes.append(swapped(self._free(f"{name}_state"), whole, self._rnn.origin))
        return self.nodes[-1].output

    def _add(self, name: str, op: str, inputs: Sequence[Tensor], attrs: dict[str, str]) -> Tensor:
        self.nodes.append(Node(self._free(name), op, tuple(inputs), attrs, self._rnn.origin))
        return self.nodes[-1].output

    def _free(self, name: str) -> str:
        return self._draft.free_name(f"{self._rnn.name}_{name}")


def final_states(
    draft: Draft, rnn: Node, layers: Sequence[RecurrentLayer], read: Sequence[Tensor]
) -> tuple[tuple[Node, ...], dict[Tensor, Tensor]]:
    """Operators that compute final states of an ``RNN``, and by its outputs what takes their place.

    Args:
        draft: the network.
        rnn: the operator.
        layers: the layers that it becomes, one by one.
        read: its outputs that are read: 1 is the state, 2 that of the cells.
    """
    ends = _Ends(draft, rnn, layers)
    moved = {tensor: ends.state() if tensor.index == 1 else ends.cell() for tensor in read}
    return tuple(ends.nodes), moved
