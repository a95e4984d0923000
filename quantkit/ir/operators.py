"""The parameters of MXNet's operators, read from strings with MXNet's defaults."""

from __future__ import annotations

import re
from typing import Literal, Optional

from quantkit.errors import ModelError
from quantkit.ir.graph import Graph, Node, Tensor

# ONNX's names for the operators of the QDQ form, which mark integers in a network of plain operators.
QUANTIZE = "QuantizeLinear"
DEQUANTIZE = "DequantizeLinear"

STATIC_LSTM = "int8_lstm"
"""An LSTM layer in INT8 as ONNX has it, with scales of data and state that are known; see ``lowering.onnx_lstm``."""

DYNAMIC_LSTM = "dynamic_int8_lstm"
"""The same with scales of data and state that the engine finds itself at each run."""

ADDITIONS = frozenset({"elemwise_add", "broadcast_add"})

# Python 2 wrote long integers as 3L. 64 bits hold at most 19 digits.
_INTEGERS = re.compile(r" *[(\[]? *([-+]?\d{1,19}L? *(, *[-+]?\d{1,19}L? *)*,? *)?[)\]]? *", re.ASCII)

_MOVES = frozenset(
    {"Flatten", "Reshape", "SwapAxis", "transpose", "squeeze", "expand_dims", "slice", "slice_axis", "slice_like"}
    | {"Cast", "amp_cast", "_copy", "BlockGrad", "Dropout"}
)
_BY_A_NUMBER = frozenset({"_mul_scalar", "_div_scalar"})

_AUXILIARY_INPUTS = dict.fromkeys(("BatchNorm", "BatchNorm_v1", "_contrib_quantized_batch_norm"), (3, 4))


def auxiliary_inputs(node: Node) -> tuple[Tensor, ...]:
    """The inputs that an operator, or one in its body, updates in training; checkpoints file them as ``aux:``."""
    own = tuple(node.inputs[position] for position in _AUXILIARY_INPUTS.get(node.op, ()))
    if node.body is None:
        return own
    # The inputs of a body are the first of its node, in their order.
    outer = dict(zip(node.body.inputs, node.inputs))
    inner = (tensor for each in node.body.nodes for tensor in auxiliary_inputs(each))
    return (*own, *(outer[tensor.node] for tensor in inner if tensor.node in outer))


def flag(node: Node, name: str, default: bool = False) -> bool:
    """A boolean parameter, in any of the spellings that MXNet has written."""
    return node.attrs.get(name, str(default)).lower() in {"true", "1"}


def integer(node: Node, name: str, default: int) -> int:
    """An integer parameter.

    Raises:
        ModelError: the text is not an integer.
    """
    values = integer_tuple(node.attrs[name]) if name in node.attrs else (default,)
    if values is None or len(values) != 1:
        raise _unreadable(node, name, "an integer")
    return values[0]


def number(node: Node, name: str, default: float) -> float:
    """A floating-point parameter.

    Raises:
        ModelError: the text is not a number.
    """
    try:
        return float(node.attrs.get(name, default))
    except ValueError as error:
        raise _unreadable(node, name, "a number") from error


def integers(node: Node, name: str) -> tuple[int, ...]:
    """A tuple of integers such as ``kernel``; empty if it is not given.

    Raises:
        ModelError: the text is not a tuple of integers.
    """
    values = integer_tuple(node.attrs.get(name, "()"))
    if values is None:
        raise _unreadable(node, name, "a tuple of integers")
    return values


def integer_tuple(text: str) -> Optional[tuple[int, ...]]:
    """The integers of a text such as ``3``, ``(3, 3)`` or ``[3L]``; None for any other text."""
    if not _INTEGERS.fullmatch(text):
        return None
    parts = [part.strip(" L") for part in text.strip("()[] ").split(",")]
    return tuple(int(part) for part in parts if part)


def _unreadable(node: Node, name: str, what: str) -> ModelError:
    return ModelError(f"node {node.name!r} ({node.op}): {name}={node.attrs[name][:40]!r} is not {what}")


def activation_kind(node: Node) -> Optional[str]:
    """The kind of a pointwise activation: relu, relu6 (any clip from 0), leaky, or its MXNet name; None for others."""
    if node.op == "Activation":
        return node.attrs.get("act_type")
    if node.op == "LeakyReLU":
        return node.attrs.get("act_type", "leaky")
    if node.op == "clip" and number(node, "a_min", 0.0) == 0.0:
        return "relu6"
    return None


def computing(graph: Graph, tensor: Tensor) -> Optional[Node]:
    """The operator that computes the values of ``tensor``; None if they are an input's or a parameter's.

    Operators that move values or choose among them, convert their type or multiply them by 1 leave them as they are.
    """
    while (node := graph.producer(tensor)) is not None and _leaves_values(node):
        tensor = node.inputs[0]
    return node


def _leaves_values(node: Node) -> bool:
    return node.op in _MOVES or (node.op in _BY_A_NUMBER and number(node, "scalar", 1.0) == 1)


SOFTMAX = frozenset({"softmax", "log_softmax", "SoftmaxActivation"})
"""Operators that turn class scores into probabilities, or into their logarithms."""


def scores_kind(graph: Graph, output: Tensor) -> Optional[Literal["softmax", "sigmoid"]]:
    """The operator that turns an output into scores from 0 to 1, see ``computing``; None if there is none."""
    node = computing(graph, output)
    if node is None:
        return None
    if node.op in ("softmax", "SoftmaxActivation"):
        return "softmax"
    return "sigmoid" if node.op == "sigmoid" or node.attrs.get("act_type") == "sigmoid" else None
