"""RecurrentLayer: recurrent layers of a fused network, batch first.

MXNet's ``RNN`` reads (steps, batch, features). A fused network has it as one operator, ``fused_recurrent``, together
with the exchanges of axes around it and its states of zero, so that every tensor has the batch as its first axis.
Initial states that are given are further inputs. The final state is the result of the last step; the cells' final state
is a second output, which an operator ``FINAL_CELL`` alone reads and hands on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np

from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import flag, integer, integers

RECURRENT = "fused_recurrent"
FINAL_CELL = "_copy"

CELL_OUTPUT = 2
"""The place of the cells' final state among the outputs of MXNet's ``RNN``, and of layers that are lowered."""

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
"""The number of gates, rows of weights for each unit of the state, by the mode of MXNet's ``RNN``."""

REPORTED_NAMES = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN+tanh", "rnn_relu": "RNN+relu"}
"""What recurrent layers are called in reports, by the mode of MXNet's ``RNN``."""

_ATTRIBUTES = ("mode", "num_layers", "state_size", "bidirectional")


@dataclass(frozen=True)
class RecurrentLayer:
    """The recurrent layers that one node computes.

    They read data of shape (batch, steps, features) and put out (batch, steps, hidden x directions). ``parameters`` is
    MXNet's flat vector: the matrices of every layer and direction, then their biases. States are of shape
    (batch, layers x directions, hidden).
    """

    node: Node

    @property
    def data(self) -> Tensor:
        return self.node.inputs[0]

    @property
    def parameters(self) -> Tensor:
        return self.node.inputs[1]

    @property
    def states(self) -> tuple[Tensor, ...]:
        """The initial state, and that of the cells of LSTM layers; nothing where they are zero."""
        return self.node.inputs[2:]

    @property
    def puts_out_cell(self) -> bool:
        """Whether the cells' final state is an output."""
        return flag(self.node, "state_outputs")

    @property
    def final_cell(self) -> Tensor:
        """The cells' final state, if it is an output."""
        return Tensor(self.node.name, 1)

    @property
    def mode(self) -> str:
        """``lstm``, ``gru``, ``rnn_tanh`` or ``rnn_relu``."""
        return self.node.attrs["mode"]

    @property
    def hidden(self) -> int:
        """The units of a layer in one direction."""
        return integer(self.node, "state_size", 0)

    @property
    def layers(self) -> int:
        return integer(self.node, "num_layers", 1)

    @property
    def directions(self) -> int:
        return 2 if flag(self.node, "bidirectional") else 1


def recurrent_layer_of(node: Optional[Node]) -> Optional[RecurrentLayer]:
    """Read a node of a fused network as recurrent layers; None if it is something else."""
    return RecurrentLayer(node) if node is not None and node.op == RECURRENT else None


def reported_name(node: Node) -> Optional[str]:
    """What a node is called in reports if it is recurrent layers, fused or MXNet's ``RNN``; None if it is not."""
    return REPORTED_NAMES.get(node.attrs.get("mode", "")) if node.op in ("RNN", RECURRENT) else None


def fused_recurrent(
    name: str,
    rnn: Node,
    data: Tensor,
    parameters: Tensor,
    states: Sequence[Tensor] = (),
    puts_out_cell: bool = False,
) -> Node:
    """The batch-first form of an ``RNN`` node from ``states``, empty for states of zero."""
    attrs = {key: rnn.attrs[key] for key in _ATTRIBUTES if key in rnn.attrs}
    if puts_out_cell:
        attrs["state_outputs"] = "True"
    return Node(name, RECURRENT, (data, parameters, *states), attrs, rnn.origin)


def final_cell(name: str, layer: RecurrentLayer) -> Node:
    """The operator that hands on the final state of a layer's cells."""
    return Node(name, FINAL_CELL, (layer.final_cell,), {}, layer.node.origin)


def hands_on_cell_of(graph: Graph, node: Node) -> Optional[RecurrentLayer]:
    """The layer of a fused network whose cells' final state a node hands on; None for other nodes."""
    source = node.inputs[0] if node.op == FINAL_CELL else None
    return None if source is None or source.index != 1 else recurrent_layer_of(graph.producer(source))


def part_names(name: str) -> tuple[str, ...]:
    """The names of the operators besides the last that ``time_major`` makes of a recurrent layer ``name``."""
    return tuple(f"{name}_{part}" for part in ("time_major", "state", "state_cell", "rnn"))


def time_major(layer: RecurrentLayer, data: Optional[Tensor] = None) -> Iterator[Node]:
    """The operators of MXNet that compute a recurrent layer, the last with the layer's name.

    Args:
        layer: the layer.
        data: its data as (steps, batch, features) where the network has them; None: the axes are exchanged first.
    """
    node = layer.node
    exchanged, *states, rnn = part_names(node.name)
    if data is None:
        yield swapped(exchanged, layer.data, node.origin)
        data = Tensor(exchanged)
    states = states if layer.mode == "lstm" else states[:1]
    yield from _initial_states(layer, states)
    yield Node(rnn, "RNN", (data, layer.parameters, *map(Tensor, states)), node.attrs, node.origin)
    yield swapped(node.name, Tensor(rnn), node.origin)


def _initial_states(layer: RecurrentLayer, names: Sequence[str]) -> Iterator[Node]:
    node = layer.node
    if layer.states:
        yield from (swapped(name, state, node.origin) for name, state in zip(names, layer.states))
        return
    shape = f"({layer.layers * layer.directions}, 0, {layer.hidden})"
    for name in names:
        yield Node(name, "_zeros", (), {"shape": shape, "dtype": "float32"}, node.origin)


def batch_first_cell(name: str, rnn: str, origin: tuple[str, ...] = ()) -> Node:
    """The cells' final state of an ``RNN``, the operator ``rnn``, batch first."""
    return swapped(name, Tensor(rnn, CELL_OUTPUT), origin)


def reads_cell_of(node: Node) -> Optional[str]:
    """The name of the operator whose cells' final state a node makes batch first, as ``batch_first_cell`` does."""
    source = node.inputs[0] if exchanges_batch(node) else None
    return source.node if source is not None and source.index == CELL_OUTPUT else None


def swapped(name: str, tensor: Tensor, origin: tuple[str, ...] = ()) -> Node:
    """The tensor with its first two axes exchanged."""
    return Node(name, "SwapAxis", (tensor,), {"dim1": "0", "dim2": "1"}, origin)


def exchanges_batch(node: Optional[Node]) -> bool:
    """Whether a node exchanges the first two axes and no others.

    Raises:
        ModelError: its axes are no integers.
    """
    if node is not None and node.op == "SwapAxis":
        return {integer(node, "dim1", 0), integer(node, "dim2", 0)} == {0, 1}
    axes = integers(node, "axes") if node is not None and node.op == "transpose" else ()
    return len(axes) > 1 and axes == (1, 0, *range(2, len(axes)))


@dataclass(frozen=True, eq=False)
class Matrices:
    """Weights and biases of one layer in one direction, float32; rows are gates x hidden.

    ``of_input`` is (rows, features), ``of_state`` (rows, hidden), each bias (rows,).
    """

    of_input: np.ndarray
    of_state: np.ndarray
    input_bias: np.ndarray
    state_bias: np.ndarray

    @property
    def flat(self) -> np.ndarray:
        """MXNet's vector of one layer in one direction."""
        return flat_layer([self])


def flat_layer(directions: Sequence[Matrices]) -> np.ndarray:
    """MXNet's vector of one layer: the matrices of all directions, then their biases."""
    weights = (part for each in directions for part in (each.of_input, each.of_state))
    biases = (part for each in directions for part in (each.input_bias, each.state_bias))
    return np.concatenate([part.ravel() for part in (*weights, *biases)])


def parameter_count(layer: RecurrentLayer, features: int) -> int:
    """How many values the flat vector has for data of so many features."""
    rows, across = GATES[layer.mode] * layer.hidden, layer.hidden * layer.directions
    columns = features + (layer.layers - 1) * across + layer.layers * (layer.hidden + 2)
    return layer.directions * rows * columns


def feature_count(layer: RecurrentLayer, size: int) -> Optional[int]:
    """The features of the data for which the flat vector has ``size`` values; None if there are none."""
    features, left = divmod(size - parameter_count(layer, 0), layer.directions * GATES[layer.mode] * layer.hidden)
    return features if features > 0 and not left else None


def matrices(layer: RecurrentLayer, flat: np.ndarray, features: int) -> list[list[Matrices]]:
    """The flat vector by layer and direction."""
    rows = GATES[layer.mode] * layer.hidden
    widths = [features, *[layer.hidden * layer.directions] * (layer.layers - 1)]
    start = 0

    def taken(*shape: int) -> np.ndarray:
        nonlocal start
        start += int(np.prod(shape))
        return flat[start - int(np.prod(shape)) : start].reshape(shape)

    weights = [[(taken(rows, width), taken(rows, layer.hidden)) for _ in range(layer.directions)] for width in widths]
    biases = [[(taken(rows), taken(rows)) for _ in range(layer.directions)] for _ in widths]
    return [
        [Matrices(*weight, *bias) for weight, bias in zip(of_layer, with_biases)]
        for of_layer, with_biases in zip(weights, biases)
    ]


def layer_matrices(params: Mapping[str, np.ndarray], layer: RecurrentLayer) -> Optional[list[list[Matrices]]]:
    """The weights of recurrent layers by layer and direction; None where they are computed or do not fit."""
    flat = params.get(layer.parameters.node)
    features = None if flat is None or layer.hidden < 1 else feature_count(layer, flat.size)
    return None if flat is None or features is None else matrices(layer, flat, features)


def lstm_matrices(params: Mapping[str, np.ndarray], layer: RecurrentLayer) -> Optional[Matrices]:
    """The weights of an LSTM of one layer and direction; None for others, or where they are computed or do not fit."""
    if layer.mode != "lstm" or layer.layers * layer.directions != 1:
        return None
    weights = layer_matrices(params, layer)
    return None if weights is None or weights[0][0].of_input.dtype != np.float32 else weights[0][0]


def known_matrices(graph: Graph, layer: RecurrentLayer) -> Matrices:
    """The weights of a layer that is known to be an LSTM of one layer and direction, with constant weights.

    Raises:
        TypeError: it is not.
    """
    weights = lstm_matrices(graph.params, layer)
    if weights is None:
        raise TypeError(f"{layer.node.name} is not an LSTM layer in one direction with constant weights")
    return weights
