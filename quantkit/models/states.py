"""Initial states of recurrent layers that a network takes as inputs: they become zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Optional

from quantkit.errors import ModelError
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import flag, integer, integers

# Of an operator RNN: data, parameters, then the state, and for LSTM the cell.
_FIRST_STATE = 2
_ZEROS = frozenset({"_zeros", "_zeros_without_dtype"})


@dataclass(frozen=True)
class _State:
    """A state that the node ``reader`` begins with, for ``layers`` (times directions) and ``hidden`` values each."""

    reader: str
    layers: int
    hidden: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """As Gluon's exports have it: the batch is open."""
        return self.layers, 0, self.hidden

    def fits(self, shape: tuple[int, ...]) -> bool:
        return len(shape) == 3 and (shape[0], shape[2]) == (self.layers, self.hidden)


def state_inputs(graph: Graph) -> tuple[str, ...]:
    """The inputs that recurrent layers read as initial states, and nothing else reads."""
    readers = _readers(graph)
    return tuple(name for name in graph.inputs if Tensor(name) in readers)


def with_zero_states(graph: Graph, noted: Mapping[str, tuple[int, ...]]) -> Graph:
    """The network with zeros for its state inputs, and with zero states that fit every batch.

    Args:
        graph: the network, with all its variables as inputs.
        noted: the shapes that it states for them.

    Raises:
        ModelError: a state's shape does not fit its layer.
    """
    readers = _readers(graph)
    zeros = {name: readers[Tensor(name)] for name in state_inputs(graph)}
    for name, state in zeros.items():
        _check_fits(state, name, noted.get(name))
    made = tuple(Node(name, "_zeros", (), _attributes(state), (name,)) for name, state in zeros.items())
    nodes = tuple(_with_open_batch(node, readers.get(node.output)) for node in graph.nodes)
    inputs = tuple(name for name in graph.inputs if name not in zeros)
    return replace(graph, nodes=(*made, *nodes), inputs=inputs)


def _readers(graph: Graph) -> dict[Tensor, _State]:
    """The tensors that only recurrent layers read, as initial states, with the first layer that does."""
    states: dict[Tensor, _State] = {}
    for node in graph.nodes:
        if node.op != "RNN":
            continue
        directions = 2 if flag(node, "bidirectional") else 1
        state = _State(node.name, integer(node, "num_layers", 1) * directions, integer(node, "state_size", 0))
        last = _FIRST_STATE + (2 if node.attrs.get("mode") == "lstm" else 1)
        for tensor in node.inputs[_FIRST_STATE:last]:
            if all(_is_state_of(tensor, reader) for reader in graph.consumers[tensor]):
                states.setdefault(tensor, state)
    return states


def _is_state_of(tensor: Tensor, reader: Node) -> bool:
    return reader.op == "RNN" and tensor not in reader.inputs[:_FIRST_STATE]


def _with_open_batch(node: Node, state: Optional[_State]) -> Node:
    """A node that makes a zero state for one size of batch, made for any."""
    if state is None or node.op not in _ZEROS:
        return node
    shape = integers(node, "shape")
    _check_fits(state, node.name, shape)
    return node if shape == state.shape else replace(node, attrs=_attributes(state))


def _check_fits(state: _State, name: str, shape: Optional[tuple[int, ...]]) -> None:
    if shape and not state.fits(shape):
        raise ModelError(
            f"node {state.reader!r} (RNN) has an initial state {name!r} of shape {shape}, and needs (layers and "
            f"directions, batch, units) = ({state.layers}, batch, {state.hidden}); correct its shape, or export the "
            "network without states, which then begin at zero"
        )


def _attributes(state: _State) -> dict[str, str]:
    return {"shape": str(state.shape), "dtype": "float32"}
