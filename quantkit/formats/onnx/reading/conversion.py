"""Conversion of ONNX's operators, each by its own converter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Optional

import numpy as np

from quantkit.errors import ModelError
from quantkit.formats.onnx.reading.activations import ACTIVATIONS
from quantkit.formats.onnx.reading.construction import Construction, Converter
from quantkit.formats.onnx.reading.elementwise import ELEMENTWISE
from quantkit.formats.onnx.reading.folding import Folding
from quantkit.formats.onnx.reading.folds import FOLDS
from quantkit.formats.onnx.reading.layers import LAYERS
from quantkit.formats.onnx.reading.layout import LAYOUT
from quantkit.formats.onnx.reading.normalization import NORMALIZATION
from quantkit.formats.onnx.reading.pooling import POOLING
from quantkit.formats.onnx.reading.read import OWN_DOMAINS
from quantkit.formats.onnx.reading.recurrent import RECURRENT
from quantkit.formats.onnx.reading.reductions import REDUCTIONS
from quantkit.formats.onnx.reading.resizing import RESIZING
from quantkit.formats.onnx.reading.selection import SELECTION
from quantkit.formats.onnx.reading.values import Computed, Constant, OnnxNode, Refused, Shape, Value

CONVERTERS: Mapping[str, Converter] = {
    **LAYERS,
    **NORMALIZATION,
    **POOLING,
    **ACTIVATIONS,
    **ELEMENTWISE,
    **REDUCTIONS,
    **LAYOUT,
    **SELECTION,
    **RESIZING,
    **RECURRENT,
}

_SHOWN = 8

# Of integers ONNX computes these in integers, and the engine in floating-point numbers, with a fraction.
_ROUNDING = frozenset(["Div", "Pow", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean"])

# The exceptions that arithmetic with numbers from a damaged file raises.
_CONTRADICTIONS = (ValueError, TypeError, IndexError, KeyError, OverflowError, ZeroDivisionError, MemoryError)


def convert(state: Construction, nodes: Sequence[OnnxNode], path: Path) -> None:
    """Convert every operator whose inputs could be converted.

    Raises:
        ModelError: some cannot be converted; the message names them.
    """
    fold = Folding(state.budget)
    refused = []
    for node in nodes:
        if any(name and name not in state.values for name in node.inputs):
            continue
        try:
            _convert_one(state, node, fold)
        except Refused as error:
            refused.append(f"{node.op} {node.name!r}: {error}")
        except _CONTRADICTIONS as error:
            refused.append(f"{node.op} {node.name!r}: it contradicts itself ({error})")
    if refused:
        rest = f"; and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
        raise ModelError(
            f"{path} cannot be imported for {len(refused)} of its operators: {'; '.join(refused[:_SHOWN])}{rest}. "
            "Replace them in the network before it is exported, or export the part before them"
        )


def _convert_one(state: Construction, node: OnnxNode, fold: Folding) -> None:
    if node.domain not in OWN_DOMAINS:
        raise Refused(
            f"it is not one of ONNX's own but of {node.domain!r}; export for plain ONNX, with functions inlined "
            "(onnx.inliner.inline_local_functions)"
        )
    given = [state.values[name] if name else None for name in node.inputs]
    if node.op in ("Shape", "Size") and given and isinstance(given[0], Computed):
        state.values[node.outputs[0]] = Constant(node.outputs[0], _extents(node, given[0].shape))
    elif node.op in FOLDS and not any(isinstance(value, Computed) for value in given):
        arrays = [None if value is None else value.array for value in given if not isinstance(value, Computed)]
        state.values[node.outputs[0]] = Constant(node.outputs[0], fold(node, arrays))
    elif node.op in CONVERTERS:
        integral = _reads_integers(node, given)
        if integral and node.op in _ROUNDING:
            raise Refused("it rounds integers, which the engine has as floating-point numbers; cast them before")
        CONVERTERS[node.op](state, node)
        if integral:
            _mark_integers(state, node)
    else:
        raise Refused("the engine has no such operator")


def _reads_integers(node: OnnxNode, given: Sequence[Optional[Value]]) -> bool:
    """Whether an operator computes integers from integers."""
    if node.op == "Cast" or (node.op == "Gather" and isinstance(given[0], Constant)):
        return False
    return any(isinstance(value, Computed) and value.integral for value in given)


def _mark_integers(state: Construction, node: OnnxNode) -> None:
    for name in node.outputs:
        value = state.values.get(name)
        if isinstance(value, Computed):
            state.values[name] = replace(value, integral=True)


def _extents(node: OnnxNode, shape: Shape) -> np.ndarray:
    if node.op == "Size":
        return np.array(np.prod(np.array(shape, object)), np.int64)
    end = node.integer("end", len(shape))
    return np.array(shape[node.integer("start", 0) : end], np.int64)
