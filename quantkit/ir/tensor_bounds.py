"""The tensor shapes and types that a network may have: with others MXNet computes wrong results or crashes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Optional

import numpy as np

from quantkit.ir.allowed_operators import FUSED
from quantkit.ir.attribute_bounds import is_true
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.operators import integer

MOST_VALUES = 1 << 29
"""Values of the largest tensor that a network may have, 2 GiB of float32; MXNet's wheels index up to 2^31."""

# These copy as many values as they read, whatever output shape their attributes give.
_COPIES = frozenset({"Reshape", "Flatten", "reshape_like"})

# Dividing integers by zero ends the process; recurrent layers read any type as float32.
_FLOAT_ONLY = frozenset({"RNN", "norm", "_contrib_quantize_asym"})
_WORDS = frozenset({"div", "rdiv", "mod", "rmod"})

_INT8_RNN = "_contrib_quantized_rnn"
_QUANTIZE_SEQUENCES = "_contrib_quantize_asym"

_DECIDED = {_INT8_RNN} | _COPIES | _FLOAT_ONLY | FUSED.keys() | {"where"}


def is_delicate(op: str) -> bool:
    """Whether ``tensor_problem`` checks anything of an operator."""
    return op in _DECIDED or _divides(op)


def _divides(op: str) -> bool:
    return not _WORDS.isdisjoint(op.lower().replace("scalar", "_scalar").split("_"))


def tensor_problem(
    nodes: Iterable[Node], shapes: Mapping[Tensor, tuple[int, ...]], types: Mapping[Tensor, np.dtype]
) -> Optional[str]:
    """Why operators may not run with these shapes and types; None if they may.

    Args:
        nodes: the operators.
        shapes: of their inputs and outputs.
        types: of their inputs.
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
        return f"tensor {empty!r} would have the shape {shapes[empty]}, which holds no value"
    name, shape = max(shapes.items(), key=lambda item: prod(item[1]), default=("", ()))
    if prod(shape) > MOST_VALUES:
        return f"tensor {name!r} would have the shape {shape}, which holds more than {MOST_VALUES} values"
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
    if node.op == _QUANTIZE_SEQUENCES and len(shapes[node.inputs[0]]) != 3:
        return f"quantizes (steps, batch, features) alone, not {shapes[node.inputs[0]]}"
    return _lstm_problem(node, shapes) if node.op == _INT8_RNN else None


def _lstm_problem(node: Node, shapes: Mapping[Tensor, tuple[int, ...]]) -> Optional[str]:
    data, parameters, *states, scale, shift = (shapes[tensor] for tensor in node.inputs)
    hidden = integer(node, "state_size", 0)
    fits = len(data) == 3 and parameters == (4 * hidden * (data[2] + hidden + 2),)
    if not fits or set(states) != {(1, data[1], hidden)} or {scale, shift} != {(1,)}:
        return f"cannot read data of shape {data} with parameters, states, scale and shift of its other inputs' shapes"
    return None


def _type_problem(node: Node, types: Mapping[Tensor, np.dtype]) -> Optional[str]:
    read = [types[tensor] for tensor in node.inputs] if is_delicate(node.op) else []
    if node.op in FUSED:
        if not is_true(node.attrs, "quantized"):
            wrong = next((dtype for dtype in read if dtype != np.float32), None)
            return None if wrong is None else f"reads {wrong} instead of float32"
        # The addend, which the result overwrites, comes before the four ranges.
        integers = [read[0], *(read[-5:-4] if is_true(node.attrs, "with_sum") else [])]
        wrong = next((dtype for dtype in integers if dtype.itemsize != 1), None)
        return None if wrong is None else f"reads {wrong} instead of 8-bit integers"
    if node.op == _INT8_RNN:
        wrong = next((dtype for dtype, wanted in zip(read, (np.uint8, *[np.float32] * 5)) if dtype != wanted), None)
        return None if wrong is None else f"reads {wrong} in place of 8-bit data or float32 parameters"
    if node.op in _FLOAT_ONLY or _divides(node.op):
        wrong = next((dtype for dtype in read if dtype.kind != "f"), None)
        return None if wrong is None else f"reads {wrong} instead of floating-point numbers"
    return None
