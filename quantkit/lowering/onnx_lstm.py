"""INT8 LSTM layers for ONNX files, in the form that an engine runs in integers.

``qdq``: data and state have the scales of the plan, and the file says so in ONNX's own operators. OpenVINO computes
with integers then, as MXNet does: one scale and one zero point for data and state, and the state is rounded after every
step. It exchanges the scales of the input gate and the forget gate (2026.4, CPU), so both have one scale for each unit,
which is right with and without the exchange. Other engines compute such a layer in FP32.

``dynamic``: ONNX Runtime's ``DynamicQuantizeLSTM``, its only LSTM in integers. The integers of the weights are those of
the plan. The engine itself finds the scales of data, for all sequences and steps of a run together, and those of the
state at every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from quantkit.errors import UserError
from quantkit.ir.operators import DYNAMIC_LSTM, STATIC_LSTM
from quantkit.ir.recurrent_layer import RecurrentLayer, known_matrices
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.recurrent_weights import (
    STATE_ZERO_POINT,
    RecurrentIntegers,
    kernel_bias,
    kernel_zero_point,
    recurrent_integers,
)

LstmForm = Literal["qdq", "dynamic"]
"""How INT8 LSTM layers are written in ONNX files."""


@dataclass(frozen=True, eq=False)
class WrittenLstm:
    """An INT8 LSTM layer in a form for ONNX: the operator, and its constants by name, in the order of its inputs.

    Rows of weights are gates x hidden, in MXNet's order of gates.
    """

    operator: str
    constants: Mapping[str, np.ndarray] = field(repr=False)


def check_lstm_form(form: str) -> None:
    """Make sure that there is a form of this name.

    Raises:
        UserError: there is none.
    """
    if form not in get_args(LstmForm):
        raise UserError(f"unknown form of LSTM layers {form!r}; choose one of {', '.join(get_args(LstmForm))}")


def written_integers(network: QuantizedGraph, layer: RecurrentLayer, form: LstmForm) -> RecurrentIntegers:
    """The weights of an INT8 LSTM layer as they are written."""
    data, state = (network.form(tensor).params for tensor in (layer.data, layer.node.output))
    return recurrent_integers(known_matrices(network.graph, layer), data, state, one_scale=form == "qdq")


def written_lstm(network: QuantizedGraph, layer: RecurrentLayer, form: LstmForm) -> WrittenLstm:
    """An INT8 LSTM layer in one of the forms."""
    data, state = (network.form(tensor).params for tensor in (layer.data, layer.node.output))
    weights, integers = known_matrices(network.graph, layer), written_integers(network, layer, form)
    matrices = {"of_input": integers.of_input, "of_state": integers.of_state}
    if form == "dynamic":
        # The plan has the weights of data in units of the state.
        of_data = integers.scale * np.float64(state.scale / data.scale)
        scales = {"input_scales": of_data.astype(np.float32), "state_scales": integers.scale}
        bias = weights.input_bias.astype(np.float64) + weights.state_bias
        return WrittenLstm(DYNAMIC_LSTM, {**matrices, **scales, "bias": bias.astype(np.float32)})
    constants = {
        **matrices,
        "scales": integers.scale,
        "bias": kernel_bias(weights, integers, data, state),
        "data_scale": np.array(data.scale, np.float32),
        "data_zero_point": np.array(kernel_zero_point(data), np.uint8),
        "state_scale": np.array(state.scale, np.float32),
        "state_zero_point": np.array(STATE_ZERO_POINT, np.uint8),
    }
    return WrittenLstm(STATIC_LSTM, constants)
