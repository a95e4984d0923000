"""Which tensors a network may have, given their shapes and types: MXNet computes others wrongly, or not to the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Optional

import numpy as np

from quantkit.graph.graph import Node, Tensor

MOST_VALUES = 1 << 29
"""Values of the largest tensor that a network may have, 2 GiB of float32; MXNet's wheels count to 2^31 at most."""

# They copy as many values as they read, whatever room their attributes leave for them.
_COPIES = frozenset({"Reshape", "reshape", "Flatten", "flatten", "reshape_like"})

# Dividing integers by zero ends the process; recurrent layers take any numbers for float32.
_FLOAT_ONLY = frozenset({"RNN"})
_WORDS = frozenset({"div", "rdiv", "mod", "rmod"})

DECIDED_BY_SHAPES = _COPIES | {"where"}


def is_for_floats(op: str) -> bool:
    """Whether an operator may not be given integers."""
    return op in _FLOAT_ONLY or not _WORDS.isdisjoint(op.lower().replace("scalar", "_scalar").split("_"))


def tensor_problem(
    nodes: Iterable[Node], shapes: Mapping[Tensor, tuple[int, ...]], types: Mapping[Tensor, np.dtype]
) -> Optional[str]:
    """Why operators may not run with these shapes and types; None if they may.

    Args:
        nodes: the operators.
        shapes: of the tensors that they read and put out.
        types: of the tensors that operators which are only for floats read.
    """
    for node in nodes:
        problem = _shape_problem(node, shapes) or _type_problem(node, types)
        if problem:
            return f"node {node.name!r} ({node.op}) {problem}"
    return None


def size_problem(shapes: Mapping[str, tuple[int, ...]]) -> Optional[str]:
    """Why a network may not have tensors of these shapes, by name; None if it may."""
    empty = next((name for name, shape in shapes.items() if not prod(shape) or not shape), None)
    if empty is not None:
        return f"tensor {empty!r} would have the shape {shapes[empty]}, and no value"
    name, shape = max(shapes.items(), key=lambda item: prod(item[1]), default=("", ()))
    if prod(shape) > MOST_VALUES:
        return f"tensor {name!r} would have the shape {shape}, and {MOST_VALUES} values are the most"
    return None


def _shape_problem(node: Node, shapes: Mapping[Tensor, tuple[int, ...]]) -> Optional[str]:
    if node.op in _COPIES:
        read, written = shapes[node.inputs[0]], shapes[node.output]
        if prod(read) != prod(written):
            return f"cannot give {read} the shape {written}"
    if node.op == "where":
        condition, chosen = (shapes[tensor] for tensor in node.inputs[:2])
        if condition != chosen and condition != chosen[:1]:
            return f"has a condition of shape {condition} for {chosen}"
    return None


def _type_problem(node: Node, types: Mapping[Tensor, np.dtype]) -> Optional[str]:
    if is_for_floats(node.op):
        found = next((types[tensor] for tensor in node.inputs if types[tensor].kind != "f"), None)
        if found is not None:
            return f"reads {found}, and is only for floating-point numbers"
    return None
