"""INT8 LSTM layers for ONNX files, in the form that an engine runs in integers.

``qdq``: data and state have the scales of the plan, and the file says so in ONNX's own operators. OpenVINO computes
with integers then, as MXNet does: one scale and one zero point for data and state, and the state is rounded after every
step. It exchanges the scales of the input gate and the forget gate (2026.4, CPU), so both have one scale for each unit,
which is right with and without the exchange. Of two layers of one shape, it computes the second with the scales of the
first: the key of its cache of kernels has the shapes, but not the scales. So no two layers have as many features and
units: further columns of zeros tell them apart. Other engines compute such a layer in FP32.

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
    lstm_integers,
)

# Kernels multiply groups of four.
_COLUMNS = 4

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
    integers = lstm_integers(network, layer)
    return _with_one_scale(integers) if form == "qdq" else integers


def _with_one_scale(integers: RecurrentIntegers) -> RecurrentIntegers:
    """Integers whose first two quarters, the input and the forget gate of each unit, have the coarser scale of both.

    Integers only become smaller by it, so still no two neighbours overflow 16 bits.
    """
    entering, forgetting, *others = np.split(integers.scale, 4)
    coarser = np.maximum(entering, forgetting)
    scale = np.concatenate([coarser, coarser, *others])
    share = (integers.scale / scale)[:, None]
    of_input, of_state = (np.rint(each * share).astype(np.int8) for each in (integers.of_input, integers.of_state))
    return RecurrentIntegers(of_input, of_state, scale)


def written_features(network: QuantizedGraph) -> Mapping[str, int]:
    """The features that each INT8 LSTM layer reads in the form ``qdq``, with columns of zeros, by node."""
    shapes: dict[tuple[int, int], str] = {}
    for layer in network.int8_lstms:
        features = known_matrices(network.graph, layer).of_input.shape[1]
        while (features, layer.hidden) in shapes:
            features += _COLUMNS
        shapes[features, layer.hidden] = layer.node.name
    return {name: features for (features, _), name in shapes.items()}


def written_lstm(network: QuantizedGraph, layer: RecurrentLayer, form: LstmForm, features: int) -> WrittenLstm:
    """An INT8 LSTM layer in one of the forms; in the form ``qdq`` its weights are for so many ``features``."""
    data, state = (network.form(tensor).params for tensor in (layer.data, layer.node.output))
    weights, integers = known_matrices(network.graph, layer), written_integers(network, layer, form)
    if form == "dynamic":
        # The plan has the weights of data in units of the state.
        input_scales = integers.scale * np.float64(state.scale / data.scale)
        bias = weights.input_bias.astype(np.float64) + weights.state_bias
        dynamic = {
            "of_input": integers.of_input,
            "of_state": integers.of_state,
            "input_scales": input_scales.astype(np.float32),
            "state_scales": integers.scale,
            "bias": bias.astype(np.float32),
        }
        return WrittenLstm(DYNAMIC_LSTM, dynamic)
    zeros = features - integers.of_input.shape[1]
    constants = {
        "of_input": np.pad(integers.of_input, ((0, 0), (0, zeros))),
        "of_state": integers.of_state,
        "scales": integers.scale,
        "bias": kernel_bias(weights, integers, data, state),
        "data_scale": np.array(data.scale, np.float32),
        "data_zero_point": np.array(kernel_zero_point(data), np.uint8),
        "state_scale": np.array(state.scale, np.float32),
        "state_zero_point": np.array(STATE_ZERO_POINT, np.uint8),
    }
    return WrittenLstm(STATIC_LSTM, constants)
