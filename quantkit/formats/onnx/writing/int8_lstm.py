"""INT8 LSTM layers in ONNX: ``LSTM`` of dequantized integers, and ONNX Runtime's ``DynamicQuantizeLSTM``.

After the ONNX operator specification and ONNX Runtime's list of contributed operators. What OpenVINO has to find around
an ``LSTM`` to compute it in integers is in its sources: ``RecurrentCellTransformation`` and
``ConvertFqRnnToQuantizedRnn``, of the CPU plugin.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quantkit.formats.onnx.writing.conversion import (
    DYNAMIC_QUANTIZE_LSTM,
    FLOAT,
    MICROSOFT,
    Conversion,
    Converter,
    Operator,
    name_of,
)
from quantkit.formats.onnx.writing.recurrent import LSTM_GATES
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.operators import DYNAMIC_LSTM, STATIC_LSTM
from quantkit.ir.recurrent_layer import CELL_OUTPUT


def _static(conversion: Conversion, node: Node) -> None:
    """Dequantized data and weights, and an initial state that is rounded: by it OpenVINO knows the state's integers.

    Data with fewer features than the weights get zeros.
    """
    of_input, of_state, scales, bias, *_, zero_point = _values(conversion, node)
    data, data_scale, data_zero_point, state_scale, state_zero_point = (
        conversion.read(tensor) for tensor in (node.inputs[0], *_constants(conversion, node)[-4:])
    )
    if columns := of_input.shape[1] - conversion.shape(node.inputs[0])[2]:
        pads = conversion.integers(node, "pads", (0, 0, 0, 0, 0, columns))
        data = conversion.step(node, "padded", "Pad", data, pads)
    subtracted = conversion.floats(node, "subtracted", float(zero_point))

    def dequantized(what: str, integers: str) -> str:
        # Written out, since OpenVINO does not see through DequantizeLinear, whose zero point is an integer.
        floats = conversion.step(node, f"{what}_floats", "Cast", integers, to=FLOAT)
        centered = conversion.step(node, f"{what}_centered", "Sub", floats, subtracted)
        return conversion.step(node, f"{what}_dequantized", "Mul", centered, state_scale)

    integers = conversion.step(node, "data_integers", "QuantizeLinear", data, data_scale, data_zero_point)
    # Constant integers instead would do in theory; with a fixed batch, OpenVINO fails on them.
    state, *cell = _states(conversion, node) or (_zeros(conversion, node),)
    rounded = conversion.step(node, "state_integers", "QuantizeLinear", state, state_scale, state_zero_point)
    row_scales = conversion.constant(node, "row_scales", _rows(scales))
    weights = []
    for what, matrix in (("weights", of_input), ("recurrence", of_state)):
        stored = conversion.constant(node, f"{what}_integers", _rows(matrix)[None])
        weights.append(conversion.step(node, what, "DequantizeLinear", stored, row_scales, axis=1))
    biases = conversion.constant(node, "biases", _biases(bias))
    inputs = (dequantized("data", integers), *weights, biases, "", dequantized("state", rounded), *cell)
    _finish(conversion, node, inputs)


def _zeros(conversion: Conversion, node: Node) -> str:
    """Zeros of shape (1, batch, hidden)."""
    hidden = conversion.shape(node.output)[2]
    shape = conversion.step(node, "shape", "Shape", conversion.read(node.inputs[0]))
    batch = conversion.step(node, "batch", "Gather", shape, conversion.integers(node, "batch_axis", (1,)), axis=0)
    one = conversion.integers(node, "one", (1,))
    extents = conversion.step(node, "state_extents", "Concat", one, batch, one, axis=0)
    zero = conversion.constant(node, "zero_state", np.zeros((1, 1, hidden), np.float32))
    return conversion.step(node, "state", "Expand", zero, extents)


def _dynamic(conversion: Conversion, node: Node) -> None:
    of_input, of_state, input_scales, state_scales, bias = _values(conversion, node)
    data = conversion.read(node.inputs[0])
    # Weights are (1, features or hidden, rows) here.
    values = {
        "weights": _rows(of_input).T[None],
        "recurrence": _rows(of_state).T[None],
        "biases": _biases(bias),
        "weights_scale": _rows(input_scales)[None],
        "zero_point": np.zeros((1, len(bias)), np.int8),
        "recurrence_scale": _rows(state_scales)[None],
    }
    names = {what: conversion.constant(node, what, value) for what, value in values.items()}
    state, cell = _states(conversion, node) or ("", "")
    inputs = [data, names["weights"], names["recurrence"], names["biases"], "", state, cell, ""]
    inputs += [names[what] for what in ("weights_scale", "zero_point", "recurrence_scale", "zero_point")]
    _finish(conversion, node, tuple(inputs), MICROSOFT)


def _finish(conversion: Conversion, node: Node, inputs: tuple[str, ...], domain: str = "") -> None:
    """Add the layer, and take the axis of directions from its result."""
    name = conversion.names.take(f"{node.name}_layer")
    hidden = conversion.shape(node.output)[2]
    operator = DYNAMIC_QUANTIZE_LSTM if domain else "LSTM"
    cell = Tensor(node.name, CELL_OUTPUT)
    outputs: tuple[str, ...] = (name,)
    if cell in conversion.graph.consumers:
        outputs = (name, conversion.names.take(f"{node.name}_final_state"), name_of(cell))
    conversion.add(Operator(operator, name, inputs, outputs, {"hidden_size": hidden}, domain))
    conversion.finish(node, "Squeeze", name, conversion.integers(node, "directions", (1,)))


def _constants(conversion: Conversion, node: Node) -> list[Tensor]:
    return [tensor for tensor in node.inputs[1:] if tensor.node in conversion.graph.params]


def _values(conversion: Conversion, node: Node) -> list[np.ndarray]:
    return [conversion.graph.params[tensor.node] for tensor in _constants(conversion, node)]


def _states(conversion: Conversion, node: Node) -> tuple[str, ...]:
    """The initial states of layer and cells, (1, batch, hidden), which follow the constants; empty if they are zero."""
    constants = _constants(conversion, node)
    return tuple(conversion.read(tensor) for tensor in node.inputs[1:] if tensor not in constants)


def _rows(values: np.ndarray) -> np.ndarray:
    """What belongs to rows of gates, in ONNX's order."""
    quarters = np.split(values, 4)
    return np.concatenate([quarters[gate] for gate in LSTM_GATES])


def _biases(bias: np.ndarray) -> np.ndarray:
    """ONNX's two biases of each row, all of it in the first."""
    rows = _rows(bias)
    both: np.ndarray = np.concatenate([rows, np.zeros_like(rows)])[None]
    return both


INT8_LSTM: Mapping[str, Converter] = {STATIC_LSTM: _static, DYNAMIC_LSTM: _dynamic}
