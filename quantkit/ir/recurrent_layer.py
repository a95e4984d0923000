"""RecurrentLayer: recurrent layers of a fused network, batch first, from states of zero.

MXNet's ``RNN`` reads (steps, batch, features). A fused network has it as one operator, ``fused_recurrent``, together
with the exchanges of axes around it and its states of zero, so that every tensor has the batch as its first axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np

from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import flag, integer, integers

RECURRENT = "fused_recurrent"

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
"""The number of gates, rows of weights for each unit of the state, by the mode of MXNet's ``RNN``."""

REPORTED_NAMES = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN+tanh", "rnn_relu": "RNN+relu"}
"""What recurrent layers are called in reports, by the mode of MXNet's ``RNN``."""

_ATTRIBUTES = ("mode", "num_layers", "state_size", "bidirectional")


@dataclass(frozen=True)
class RecurrentLayer:
    """The recurrent layers that one node computes.

    They read data of shape (batch, steps, features) and put out (batch, steps, hidden x directions). ``parameters`` is
    MXNet's flat vector: the matrices of every layer and direction, then their biases.
    """

    node: Node

    @property
    def data(self) -> Tensor:
        return self.node.inputs[0]

    @property
    def parameters(self) -> Tensor:
        return self.node.inputs[1]

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


def fused_recurrent(name: str, rnn: Node, data: Tensor, parameters: Tensor) -> Node:
    """The batch-first form of an ``RNN`` node whose states are zero, without its final states."""
    attrs = {key: rnn.attrs[key] for key in _ATTRIBUTES if key in rnn.attrs}
    return Node(name, RECURRENT, (data, parameters), attrs, rnn.origin)


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
    shape = f"({layer.layers * layer.directions}, 0, {layer.hidden})"
    for state in states:
        yield Node(state, "_zeros", (), {"shape": shape, "dtype": "float32"}, node.origin)
    yield Node(rnn, "RNN", (data, layer.parameters, *map(Tensor, states)), node.attrs, node.origin)
    yield swapped(node.name, Tensor(rnn), node.origin)


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


def feature_count(layer: RecurrentLayer, size: int) -> Optional[int]:
    """The features of the data for which the flat vector has ``size`` values; None if there are none."""
    rows, across = GATES[layer.mode] * layer.hidden, layer.hidden * layer.directions
    later = (layer.layers - 1) * layer.directions * rows * (across + layer.hidden)
    biases = layer.layers * layer.directions * rows * 2
    features, left = divmod(size - biases - later - layer.directions * rows * layer.hidden, layer.directions * rows)
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


def lstm_matrices(params: Mapping[str, np.ndarray], layer: RecurrentLayer) -> Optional[Matrices]:
    """The weights of an LSTM of one layer and direction; None for others, or where they are computed or do not fit."""
    flat = params.get(layer.parameters.node)
    if flat is None or layer.mode != "lstm" or layer.layers * layer.directions != 1 or layer.hidden < 1:
        return None
    features = feature_count(layer, flat.size)
    return None if features is None or flat.dtype != np.float32 else matrices(layer, flat, features)[0][0]


def known_matrices(graph: Graph, layer: RecurrentLayer) -> Matrices:
    """The weights of a layer that is known to be an LSTM of one layer and direction, with constant weights.

    Raises:
        TypeError: it is not.
    """
    weights = lstm_matrices(graph.params, layer)
    if weights is None:
        raise TypeError(f"{layer.node.name} is not an LSTM layer in one direction with constant weights")
    return weights
