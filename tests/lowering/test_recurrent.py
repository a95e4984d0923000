"""Networks with LSTM layers as MXNet's INT8 symbol and in QDQ form; ``test_int8_lstm.py`` runs the former."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import fuse
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.lowering.qdq import qdq_network
from quantkit.quantization.plan import float_plan
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.quantization.recurrent_networks import quantized
from tests.sequences import STACK, expected_scores, sequence_network, sequences

DATA = sequences(4, tokens=False)


def test_the_kernel_reads_steps_first_and_integers(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    _, network = quantized(monkeypatch, sequence_network("NTC"), DATA)
    lowered = int8_graph(network)
    operators = [node.op for node in lowered.nodes]
    assert operators.count("_contrib_quantized_rnn") == operators.count("_contrib_quantize_asym") == STACK.layers
    assert operators.count("SwapAxis") == 2
    for node in lowered.nodes:
        if node.op == "_contrib_quantized_rnn":
            _, parameters, _, _, scale, shift = (tensor.node for tensor in node.inputs)
            assert lowered.params[shift].tolist() == [128.0]
            form = network.form(next(each.output for each in network.int8_weighted if node.name.startswith(each.name)))
            np.testing.assert_allclose(lowered.params[scale], 1 / form.params.scale, rtol=1e-6)
            assert lowered.params[parameters].dtype == np.float32


def test_recurrent_layers_that_stay_fp32_are_exact_in_qdq_form(engine: None) -> None:
    graph = sequence_network("NTC")
    fused = fuse(graph, DATA.shape[1:]).graph
    shapes = infer_shapes(float_graph(fused), {"data": DATA.shape})
    written = qdq_network(QuantizedGraph(fused, float_plan(fused)), shapes).graph
    (scores,) = run(written, {"data": DATA})
    np.testing.assert_allclose(scores, expected_scores(graph, DATA), rtol=1e-5, atol=1e-5)
