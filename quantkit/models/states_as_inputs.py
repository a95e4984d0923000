"""Networks whose recurrent layers hand their states on: initial states are inputs, final states outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, Optional, get_args

from quantkit.errors import ModelError
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.handed_states import HandedState, zero_states
from quantkit.ir.names import Names
from quantkit.ir.operators import flag, integer
from quantkit.ir.recurrent_layer import exchanges_batch, swapped
from quantkit.models.model import Model
from quantkit.models.notes import notes_of_handed_states

StatesKind = Literal["zero", "inputs"]
"""What becomes of initial states: each sequence begins at zero, or they are inputs of the network."""

_REMEDY = "load it with states of zero (--states zero)"
_NAMES = ("state", "cell")
_REVERSING = frozenset({"reverse", "SequenceReverse"})


def check_states_kind(states: str) -> None:
    """Make sure that states can become this.

    Raises:
        ModelError: they cannot.
    """
    if states not in get_args(StatesKind):
        raise ModelError(f"states is {states!r}; choose one of {', '.join(get_args(StatesKind))}")


def with_states_as_inputs(model: Model) -> Model:
    """The network with an input and an output for each state of its recurrent layers, see ``ir.handed_states``.

    Raises:
        ModelError: it has no recurrent layers, or one whose states cannot be handed on: it begins at states that are
            computed; or it reads sequences backward, too.
    """
    graph = model.graph
    if (node := next(filter(_reads_backward, graph.nodes), None)) is not None:
        raise ModelError(
            f"node {node.name!r} ({node.op}) reads sequences backward, so that results depend on the pieces that "
            f"follow, and no states can be handed on; {_REMEDY}"
        )
    layers = [node for node in graph.nodes if node.op == "RNN"]
    if not layers:
        raise ModelError(f"{model.name} has no recurrent layers, so no states to hand on; {_REMEDY}")
    for layer in layers:
        _check(graph, layer)
    handing = _Handing(graph)
    for layer in layers:
        handing.hand_on(layer)
    (data,) = graph.inputs
    placeholders = zero_states(data, 1 + len(model.input_shape), handing.states)
    whole = replace(graph, nodes=(*placeholders, *handing.nodes()), outputs=tuple(handing.outputs)).pruned()
    states = tuple(handing.states)
    notes = notes_of_handed_states(model.notes, [state.input for state in states])
    return replace(model, graph=whole, states=states, notes=notes)


def _reads_backward(node: Node) -> bool:
    return node.op in _REVERSING or (node.op == "RNN" and flag(node, "bidirectional"))


def _check(graph: Graph, layer: Node) -> None:
    for tensor in _states(layer):
        made = graph.producer(tensor)
        if made is None or made.op != "_zeros":
            raise ModelError(
                f"node {layer.name!r} (RNN) begins at the state {str(tensor)!r}, which is neither zero nor an input; "
                f"no state can be handed on to it: {_REMEDY}"
            )


def _states(layer: Node) -> tuple[Tensor, ...]:
    return layer.inputs[2:4] if layer.attrs.get("mode") == "lstm" else layer.inputs[2:3]


class _Handing:
    """The states found so far, and the network's outputs with theirs."""

    def __init__(self, graph: Graph) -> None:
        self.states: list[HandedState] = []
        self.outputs = list(graph.outputs)
        self._graph, self._names = graph, Names(graph.names)
        # By layer, the operators before and after it; and the layers as they are now.
        self._around: dict[str, tuple[list[Node], Node, list[Node]]] = {}

    def hand_on(self, layer: Node) -> None:
        """Give each state of a layer an input and an output."""
        before: list[Node] = []
        after: list[Node] = []
        shape = (integer(layer, "num_layers", 1), integer(layer, "state_size", 0))
        for number, tensor in enumerate(_states(layer)):
            alone = len(self._graph.consumers[tensor]) == 1
            name = tensor.node if alone else self._names.take(f"{layer.name}_{_NAMES[number]}")
            before.append(swapped(self._names.take(f"{name}_steps_first"), Tensor(name), layer.origin))
            output = self._output_of(Tensor(layer.name, 1 + number))
            if output is None:
                end = swapped(self._names.take(f"{name}_next"), Tensor(layer.name, 1 + number), layer.origin)
                after.append(end)
                self.outputs.append(end.output)
                output = len(self.outputs) - 1
            self.states.append(HandedState(name, output, shape))
        inputs = (*layer.inputs[:2], *(node.output for node in before), *layer.inputs[2 + len(before) :])
        changed = replace(layer, inputs=inputs, attrs={**layer.attrs, "state_outputs": "True"})
        self._around[layer.name] = before, changed, after

    def _output_of(self, final: Tensor) -> Optional[int]:
        """The place of a final state among the network's own outputs, which begin with the batch."""
        for place, tensor in enumerate(self._graph.outputs):
            node = self._graph.producer(tensor)
            if node is not None and exchanges_batch(node) and node.inputs[0] == final:
                return place
        return None

    def nodes(self) -> Iterator[Node]:
        """The network's operators with those of its states."""
        inputs = {state.input for state in self.states}
        for node in self._graph.nodes:
            if node.name in self._around:
                before, layer, after = self._around[node.name]
                yield from (*before, layer, *after)
            elif node.name not in inputs:
                yield node
