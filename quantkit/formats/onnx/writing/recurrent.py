"""Recurrent layers and embeddings in ONNX: MXNet's ``RNN`` of several layers as one ONNX operator for each.

After MXNet's sources (src/operator/rnn-inl.h) and the ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Optional

import numpy as np

from quantkit.errors import ModelError
from quantkit.formats.onnx.writing.conversion import (
    END,
    INT64,
    Attribute,
    Conversion,
    Converter,
    Operator,
    name_of,
    refused,
)
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import flag, integer
from quantkit.ir.recurrent_layer import GATES, RecurrentLayer, matrices, parameter_count

LSTM_GATES = (0, 3, 1, 2)
"""The gates of ONNX's LSTM (input, output, forget, cell) by their positions in MXNet (input, forget, cell, output)."""

# By MXNet's mode: ONNX's operator, and its gates by their positions in MXNet. GRU has reset, update, new there, and
# update, reset, new in ONNX.
_OPERATORS = {
    "lstm": ("LSTM", LSTM_GATES),
    "gru": ("GRU", (1, 0, 2)),
    "rnn_tanh": ("RNN", (0,)),
    "rnn_relu": ("RNN", (0,)),
}

# Its attributes that change what it computes, with the values that change nothing.
_PLAIN = {
    "projection_size": ("None",),
    "lstm_state_clip_min": ("None",),
    "lstm_state_clip_max": ("None",),
    "use_sequence_length": ("False", "0"),
}

_ZEROS = frozenset({"_zeros", "_zeros_without_dtype"})
_MOVES = frozenset({"SwapAxis", "transpose", "_copy"})


def with_flat_parameters(graph: Graph) -> Graph:
    """The network with the parameters of each recurrent layer as one vector, as Gluon's exports compute them.

    Raises:
        ModelError: they depend on the network's input.
    """
    params, nodes = dict(graph.params), []
    for node in graph.nodes:
        if node.op == "RNN" and node.inputs[1].node not in params:
            flat = node.inputs[1]
            params[flat.node] = _flat(graph, node, flat)
        nodes.append(node)
    made = {name for name in params if name not in graph.params}
    return replace(graph, nodes=tuple(node for node in nodes if node.name not in made), params=params).pruned()


def _flat(graph: Graph, layer: Node, tensor: Tensor) -> np.ndarray:
    """The values of a tensor that joins and flattens parameters."""
    if tensor.node in graph.params:
        return graph.params[tensor.node].reshape(-1)
    node = graph.producer(tensor)
    if node is None or node.op not in ("_rnn_param_concat", "Concat", "Reshape", "Flatten"):
        raise refused(layer, "its parameters are computed; make them one constant vector")
    return np.concatenate([_flat(graph, layer, each) for each in node.inputs])


def holds_tokens(graph: Graph, tensor: Tensor) -> bool:
    """Whether only embeddings read a tensor, so that it holds integers."""
    readers = graph.consumers.get(tensor, ())
    return bool(readers) and tensor not in graph.outputs and all(_takes_tokens(graph, tensor, node) for node in readers)


def _takes_tokens(graph: Graph, tensor: Tensor, node: Node) -> bool:
    if node.op == "Embedding":
        return node.inputs[0] == tensor
    return node.op in _MOVES and holds_tokens(graph, node.output)


def _embedding(conversion: Conversion, node: Node) -> None:
    tokens, table = node.inputs
    places, first = conversion.read(tokens), _first_of(conversion.graph, tokens)
    if first.node not in conversion.graph.inputs or not holds_tokens(conversion.graph, first):
        places = conversion.step(node, "tokens", "Cast", places, to=INT64)
    conversion.finish(node, "Gather", conversion.read(table), places, axis=0)


def _first_of(graph: Graph, tensor: Tensor) -> Tensor:
    """The tensor that only had its axes moved."""
    node = graph.producer(tensor)
    while node is not None and node.op in _MOVES:
        tensor = node.inputs[0]
        node = graph.producer(tensor)
    return tensor


def _zeros(conversion: Conversion, node: Node) -> None:
    """States of zero are what ONNX's layers begin with by themselves."""
    readers = conversion.graph.consumers.get(node.output, ())
    if node.output in conversion.graph.outputs or any(
        reader.op != "RNN" or node.output in reader.inputs[:2] for reader in readers
    ):
        raise refused(node, "zeros for a batch of unknown size, other than as the state of a recurrent layer")


def _recurrent(conversion: Conversion, node: Node) -> None:
    mode = node.attrs.get("mode", "")
    if mode not in _OPERATORS:
        raise refused(node, f"the mode {mode!r}")
    for name, usual in _PLAIN.items():
        if node.attrs.get(name, usual[0]) not in usual:
            raise refused(node, f"{name}={node.attrs[name]}")
    directions = 2 if flag(node, "bidirectional") else 1
    layers, units = integer(node, "num_layers", 1), integer(node, "state_size", 0)
    weights = _weights(conversion, node)
    states = [_state(conversion, node, tensor) for tensor in node.inputs[2 : 4 if mode == "lstm" else 3]]
    used = [Tensor(node.name, index) for index in (1, 2)]
    used = [each for each in used if conversion.graph.consumers.get(each) or each in conversion.graph.outputs]
    data, finals = conversion.read(node.inputs[0]), []
    for number, (of_input, of_state, biases) in enumerate(weights):
        own = f"layer{number}"
        constants = {"weights": of_input, "recurrence": of_state, "biases": biases}
        parts = [conversion.constant(node, f"{own}_{what}", values) for what, values in constants.items()]
        initial = [_of_layer(conversion, node, state, number, directions, layers) for state in states]
        outputs = [conversion.names.take(f"{node.name}_{own}_{what}") for what in ("steps", "state", "cell")]
        present = outputs[: 1 + max((tensor.index for tensor in used), default=0)]
        inputs = (data, *parts, *(["", *initial] if any(initial) else []))
        attributes = _attributes(mode, units, directions)
        name = conversion.names.take(f"{node.name}_{own}")
        conversion.add(Operator(_OPERATORS[mode][0], name, inputs, tuple(present), attributes))
        finals.append(present)
        data = _side_by_side(conversion, node, present[0], directions, units, own, number == layers - 1)
    for tensor in used:
        ends = tuple(each[tensor.index] for each in finals)
        operator, attrs = ("Identity", {}) if layers == 1 else ("Concat", {"axis": 0})
        conversion.add(Operator(operator, name_of(tensor), ends, (name_of(tensor),), attrs))


def _attributes(mode: str, units: int, directions: int) -> Mapping[str, Attribute]:
    attributes: dict[str, Attribute] = {"hidden_size": units, "direction": "bidirectional"}
    if directions == 1:
        attributes["direction"] = "forward"
    if mode == "gru":
        attributes["linear_before_reset"] = 1
    if mode == "rnn_relu":
        attributes["activations"] = ("Relu",) * directions
    return attributes


def _weights(conversion: Conversion, node: Node) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """ONNX's W, R and B of each layer, from MXNet's vector."""
    layer, features = RecurrentLayer(node), conversion.shape(node.inputs[0])[2]
    flat = conversion.graph.params[layer.parameters.node].reshape(-1)
    if flat.size != (wanted := parameter_count(layer, features)):
        raise ModelError(f"node {node.name!r} (RNN) has {flat.size} parameters and needs {wanted}; correct them")
    gates = GATES[layer.mode]
    order = np.arange(gates * layer.hidden).reshape(gates, -1)[list(_OPERATORS[layer.mode][1])].reshape(-1)
    return [
        (
            np.stack([each.of_input[order] for each in directions]),
            np.stack([each.of_state[order] for each in directions]),
            np.stack([np.concatenate([each.input_bias[order], each.state_bias[order]]) for each in directions]),
        )
        for directions in matrices(layer, flat, features)
    ]


def _state(conversion: Conversion, node: Node, tensor: Tensor) -> Optional[str]:
    """The name of an initial state; None if it is zero."""
    made = conversion.graph.producer(tensor)
    return None if made is not None and made.op in _ZEROS else conversion.read(tensor)


def _of_layer(
    conversion: Conversion, node: Node, state: Optional[str], number: int, directions: int, layers: int
) -> str:
    """The part of an initial state that is a layer's."""
    if state is None or layers == 1:
        return state or ""
    limits = (number * directions, (number + 1) * directions, 0)
    arguments = [conversion.integers(node, f"state{number}_limit", (limit,)) for limit in limits]
    return conversion.step(node, f"state{number}", "Slice", state, *arguments)


def _side_by_side(
    conversion: Conversion, node: Node, steps: str, directions: int, units: int, own: str, last: bool
) -> str:
    """MXNet's (steps, batch, directions x units) of ONNX's (steps, directions, batch, units)."""
    op, inputs = "Squeeze", (steps, conversion.integers(node, f"{own}_axes", (1,)))
    if directions == 2:
        turned = conversion.step(node, f"{own}_turned", "Transpose", steps, perm=(0, 2, 1, 3))
        # Zeros stand for the extents of the input.
        op, inputs = "Reshape", (turned, conversion.integers(node, f"{own}_shape", (0, 0, 2 * units)))
    if not last:
        return conversion.step(node, f"{own}_joined", op, *inputs)
    conversion.finish(node, op, *inputs)
    return node.name


def _reverse(conversion: Conversion, node: Node) -> None:
    axis = integer(node, "axis", 0)
    arguments = [
        conversion.integers(node, what, (value,))
        for what, value in {"starts": -1, "ends": -END, "axes": axis, "steps": -1}.items()
    ]
    conversion.finish(node, "Slice", conversion.read(node.inputs[0]), *arguments)


RECURRENT: Mapping[str, Converter] = {
    "RNN": _recurrent,
    "Embedding": _embedding,
    "reverse": _reverse,
    **dict.fromkeys(_ZEROS, _zeros),
}
