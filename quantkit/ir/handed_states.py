"""States that recurrent layers hand on, from one piece of a sequence to the next: inputs and outputs of a network.

While a network is quantized and measured, it has one input, and every sequence begins at zero: operators that compute
zeros for the batch of its data stand for the inputs, and have their names. Only where it is deployed these operators
become inputs. They come first in the network, so that it can be led back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from quantkit.ir.graph import Graph, Node, Tensor


@dataclass(frozen=True)
class HandedState:
    """A state of recurrent layers that is an input and an output of a network.

    Attributes:
        input: the name of the input, which a piece of a sequence begins with.
        output: the place of the output, which it ends with, among the network's outputs.
        shape: (layers, units) of both, without the batch, which comes first.
    """

    input: str
    output: int
    shape: tuple[int, int]


def zero_states(data: str, axes: int, states: Sequence[HandedState]) -> tuple[Node, ...]:
    """The operators that stand for the inputs.

    Args:
        data: the network's input.
        axes: how many axes it has, the batch included.
        states: the states; each one's operator has the name of its input.
    """
    zeros, sums, batch = (f"{data}_states_{part}" for part in ("zeros", "sums", "batch"))
    made = [
        Node(zeros, "zeros_like", (Tensor(data),)),
        Node(sums, "sum", (Tensor(zeros),), {"axis": str(tuple(range(1, axes)))}),
        Node(batch, "Reshape", (Tensor(sums),), {"shape": "(-1, 1, 1)"}),
    ]
    made += [
        Node(state.input, "broadcast_axis", (Tensor(batch),), {"axis": "(1, 2)", "size": str(state.shape)})
        for state in states
    ]
    return tuple(replace(node, origin=(node.name,)) for node in made)


def with_state_inputs(graph: Graph, states: Sequence[HandedState]) -> Graph:
    """The network as it is deployed: its states are inputs, after its data."""
    if not states:
        return graph
    names = tuple(state.input for state in states)
    nodes = tuple(node for node in graph.nodes if node.name not in names)
    return replace(graph, nodes=nodes, inputs=(*graph.inputs, *names)).pruned()


def from_zero_states(graph: Graph, axes: int, states: Sequence[HandedState]) -> Graph:
    """The inverse of ``with_state_inputs``; ``axes``: see ``zero_states``.

    Raises:
        ModelError: an operator has the name of one that stands for an input.
    """
    if not states:
        return graph
    data = graph.inputs[0]
    return replace(graph, nodes=(*zero_states(data, axes, states), *graph.nodes), inputs=(data,))


def zeros_of(states: Sequence[HandedState], batch: int) -> Mapping[str, np.ndarray]:
    """The inputs that sequences begin with, float32 (batch, layers, units), by name."""
    return {state.input: np.zeros((batch, *state.shape), np.float32) for state in states}
