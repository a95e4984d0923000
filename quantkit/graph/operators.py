"""What quantkit knows of MXNet's operators: their parameters, read from strings with MXNet's defaults."""

from __future__ import annotations

import ast
from typing import Optional

from quantkit.errors import ModelError
from quantkit.graph.graph import Node

ADDITIONS = frozenset({"elemwise_add", "broadcast_add", "_plus", "_Plus", "broadcast_plus"})

# Inputs that an operator updates in training; checkpoints file them as "aux:".
AUXILIARY_INPUTS = {"BatchNorm": (3, 4), "BatchNorm_v1": (3, 4), "SyncBatchNorm": (3, 4)}


def flag(node: Node, name: str, default: bool = False) -> bool:
    """A boolean parameter, in any of the spellings that MXNet has written."""
    return node.attrs.get(name, str(default)).lower() in {"true", "1"}


def integer(node: Node, name: str, default: int) -> int:
    """An integer parameter."""
    return int(node.attrs.get(name, default))


def number(node: Node, name: str, default: float) -> float:
    """A floating-point parameter."""
    return float(node.attrs.get(name, default))


def integers(node: Node, name: str) -> tuple[int, ...]:
    """A tuple of integers such as ``kernel``; empty where it is not given.

    Raises:
        ModelError: the text is not a tuple of integers.
    """
    # Python 2 wrote long integers as 3L.
    text = node.attrs.get(name, "()").replace("L", "")
    try:
        value = ast.literal_eval(text)
        return tuple(int(item) for item in (value if isinstance(value, (tuple, list)) else (value,)))
    except (ValueError, SyntaxError, TypeError) as error:
        raise ModelError(f"node {node.name!r} ({node.op}): {name}={text!r} is not a tuple of integers") from error


def activation_kind(node: Node) -> Optional[str]:
    """The kind of a pointwise activation: relu, relu6 (any clip from 0), leaky, or its MXNet name; None for others."""
    if node.op == "relu":
        return "relu"
    if node.op == "Activation":
        return node.attrs.get("act_type")
    if node.op == "LeakyReLU":
        return node.attrs.get("act_type", "leaky")
    if node.op == "clip" and number(node, "a_min", 0.0) == 0.0:
        return "relu6"
    return None
