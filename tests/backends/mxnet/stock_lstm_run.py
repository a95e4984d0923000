"""Quantize an LSTM of 128 units with MXNet's own quantizer and with quantkit; print the signal-to-noise ratio of both.

Weights are uniform between -1/sqrt(128) and 1/sqrt(128), the data of 20 steps normally distributed. Both calibrate with
the smallest and the largest value of the very data.
"""

from __future__ import annotations

import json

import numpy as np

from quantkit.api import quantize
from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.instructions import int8_lstm_obstacle
from quantkit.backends.mxnet.stock import stock_int8_graph
from quantkit.benchmark.suites.suite import Recurrent
from quantkit.benchmark.workloads.recurrent import recurrent_graph, recurrent_model, sequences
from quantkit.quantization.config import QuantizationConfig
from tests.backends.mxnet.int8_lstm_run import decibels

STACK = Recurrent(layers=1, steps=20, inputs=128, hidden=128)
BATCH = 8


def main() -> None:
    if obstacle := int8_lstm_obstacle():
        raise SystemExit(obstacle)
    data, graph = sequences(STACK, BATCH), recurrent_graph(STACK)
    steps_first = np.ascontiguousarray(data.swapaxes(0, 1))
    (exact,) = run(graph, {"data": steps_first})
    (stock,) = run(stock_int8_graph(graph, steps_first, "naive"), {"data": steps_first})
    quantized = quantize(recurrent_model("lstm", STACK), data, QuantizationConfig(method="minmax", preset="none"))
    (own,) = run(quantized.graph, {"data": data})
    print(json.dumps({"stock": decibels(stock, exact), "own": decibels(own.swapaxes(0, 1), exact)}))


if __name__ == "__main__":
    main()
