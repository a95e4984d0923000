"""Run MXNet's INT8 LSTM kernel from given states, and compare all that it puts out with a model of its arithmetic.

The largest deviations of result, state and cell's state are printed, each for states of zero and for given ones.
"""

from __future__ import annotations

import json
import os

import numpy as np

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.instructions import VARIABLE
from quantkit.ir.recurrent_layer import Matrices
from quantkit.quantization.arithmetic import QuantParams, quantize
from quantkit.quantization.recurrent_weights import (
    STATE_ZERO_POINT,
    added_columns,
    engine_matrices,
    recurrent_integers,
)

STEPS, BATCH, FEATURES, HIDDEN = 7, 3, 6, 8
DATA, STATE = QuantParams(3 / 127.5, "int8"), QuantParams(0.9 / 127.5, "int8")
RANDOM = np.random.default_rng(0)
SHAPES = ((4 * HIDDEN, FEATURES), (4 * HIDDEN, HIDDEN), (4 * HIDDEN,), (4 * HIDDEN,))
WEIGHTS = Matrices(*(RANDOM.normal(0, 0.4, shape).astype(np.float32) for shape in SHAPES))
INTEGERS = recurrent_integers(WEIGHTS, DATA, STATE)

Outputs = tuple[np.ndarray, np.ndarray, np.ndarray]


def kernel(data: np.ndarray, state: np.ndarray, cell: np.ndarray) -> Outputs:
    nd = load_mxnet().nd
    padded = np.pad(data, ((0, 0), (0, 0), (0, added_columns(INTEGERS))))
    read = np.clip(np.rint(padded / DATA.scale) + STATE_ZERO_POINT, 0, 255).astype(np.uint8)
    floats = engine_matrices(WEIGHTS, INTEGERS, DATA, STATE).flat, state[None], cell[None], [1 / STATE.scale], [128.0]
    outputs = nd.contrib.quantized_rnn(
        nd.array(read, dtype=np.uint8), *map(nd.array, floats), mode="lstm", num_layers=1, state_size=HIDDEN,
        state_outputs=True,
    )  # fmt: skip
    result, last, last_cell = (output.asnumpy() for output in outputs)
    return result, last[0], last_cell[0]


def model(data: np.ndarray, state: np.ndarray, cell: np.ndarray) -> Outputs:
    hidden, results = quantize(state, STATE).astype(np.float64), []
    for step in data:
        sums = quantize(step, DATA).astype(np.float64) @ INTEGERS.of_input.T + hidden @ INTEGERS.of_state.T
        gates = sums * INTEGERS.scale * STATE.scale + WEIGHTS.input_bias + WEIGHTS.state_bias
        enter, forget, new, leave = np.split(gates, 4, axis=1)
        cell = cell / (1 + np.exp(-forget)) + np.tanh(new) / (1 + np.exp(-enter))
        hidden = quantize(np.tanh(cell) / (1 + np.exp(-leave)), STATE).astype(np.float64)
        results.append(hidden * STATE.scale)
    return np.stack(results), results[-1], cell


def main() -> None:
    # The kernel alone is asked, so no part of quantkit prepares oneDNN.
    os.environ.setdefault(VARIABLE, "AVX512_CORE")
    data = RANDOM.normal(size=(STEPS, BATCH, FEATURES)).astype(np.float32)
    zero = np.zeros((BATCH, HIDDEN), np.float32)
    given = RANDOM.uniform(-0.8, 0.8, zero.shape).astype(np.float32), RANDOM.normal(size=zero.shape).astype(np.float32)
    pairs = {"zero": (zero, zero), "given": given}
    deviations = {
        name: [float(np.abs(ours - own).max()) for ours, own in zip(kernel(data, *pair), model(data, *pair))]
        for name, pair in pairs.items()
    }
    print(json.dumps(deviations))


if __name__ == "__main__":
    main()
