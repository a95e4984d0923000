"""The range of an LSTM layer's state, as wide as lets the layer err least.

The kernel has one scale for each row of the weights of data and state together, and the weights of the data are in
units of the state's step (``recurrent_weights``). A coarser step makes them smaller, and with them the steps of all
rows whose largest weights they are. The state itself is rounded more coarsely by it, which often costs less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from quantkit.backends.mxnet.execute import run
from quantkit.calibration.ranges import Range
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.graph import Tensor
from quantkit.ir.recurrent_layer import RecurrentLayer, known_matrices
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.recurrent_weights import recurrent_integers
from quantkit.quantization.simulation.recurrent import int8_lstm
from quantkit.quantization.simulation.simulator import Values

FACTORS = (1.0, 1.25, 1.5, 1.75, 2.0)
"""How many times as wide as it was calibrated the range of a state may be."""

# More sequences do not change which factor is best.
_SEQUENCES = 8


def with_state_ranges(network: QuantizedGraph, samples: np.ndarray) -> QuantizedGraph:
    """The network with that range for the state of each INT8 LSTM layer with which its results are nearest to FP32's.

    Args:
        network: the quantized network.
        samples: the network's input, float32.
    """
    if not network.int8_lstms:
        return network
    values = _float_values(network, samples[:_SEQUENCES])
    for lstm in network.int8_lstms:
        # What a layer reads may be the state of one before it, whose range is known by now.
        forms: Mapping[Tensor, TensorQuantization] = {
            **network.plan.tensors,
            lstm.node.output: _best_form(network, lstm, values),
        }
        network = replace(network, plan=replace(network.plan, tensors=forms))
    return network


def _float_values(network: QuantizedGraph, samples: np.ndarray) -> Values:
    """What LSTM layers read and put out in FP32."""
    (name,) = network.graph.inputs
    wanted = dict.fromkeys(each for lstm in network.int8_lstms for each in (lstm.data, *lstm.states, lstm.node.output))
    computed = [tensor for tensor in wanted if tensor.node != name]
    results = run(float_graph(network.graph).with_outputs(computed).pruned(), {name: samples})
    return {Tensor(name): samples, **dict(zip(computed, results))}


def _best_form(network: QuantizedGraph, lstm: RecurrentLayer, values: Values) -> TensorQuantization:
    form = network.form(lstm.node.output)
    wider = [replace(form, range=Range(factor * form.range.low, factor * form.range.high)) for factor in FACTORS]
    return min(wider, key=lambda each: _error(network, lstm, each, values))


def _error(network: QuantizedGraph, lstm: RecurrentLayer, state: TensorQuantization, values: Values) -> float:
    """The squared error of a layer's results, with its state in this form, where it reads what FP32 computes."""
    weights, data = known_matrices(network.graph, lstm), network.form(lstm.data)
    integers = recurrent_integers(weights, data.params, state.params)
    initial = [values[each] for each in lstm.states]
    results, _ = int8_lstm(values[lstm.data], weights, integers, data, state.params, initial)
    return float(np.square(results - values[lstm.node.output]).sum(dtype=np.float64))
