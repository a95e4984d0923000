"""How far networks with several outputs are from FP32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import quantkit
from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.evaluation.divergence import noise_shares
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.mixed_precision.images import judged
from quantkit.progress import silent
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import DATA, Builder, images


def test_each_output_counts_in_the_noise_of_the_network_all_in_int8(int8_engine: None) -> None:
    b = Builder()
    stem = b.relu("relu", b.conv("conv", DATA, 3, 8))
    graph = b.graph(b.conv("first", stem, 8, 4), b.conv("second", stem, 8, 6))
    data = images(8)
    fused = quantkit.fuse(quantkit.load_model(symbol_of(graph), params=graph.params, input_shape=(3, 16, 16)), data)
    table = quantkit.calibrate(fused, data, 8, "minmax")
    int8 = int8_graph(QuantizedGraph(fused.fused.graph, quantkit.plan(fused, table)))
    looked_at = judged(fused, data, silent)
    balanced = looked_at.balanced(int8)
    exact, rounded = (run(each, {"data": data}) for each in (graph, int8))
    assert balanced.usual_noise == pytest.approx(noise_shares(exact, rounded), rel=1e-3)
    assert looked_at.divergence(int8) == pytest.approx(np.mean(balanced.usual_noise))
    assert balanced.divergence(int8) == pytest.approx(1.0) and balanced.divergence(graph) == 0.0
    doubled = replace(balanced, usual_noise=(2 * balanced.usual_noise[0], balanced.usual_noise[1]))
    assert doubled.divergence(int8) == pytest.approx(0.75)


def test_one_output_counts_as_it_is(int8_engine: None) -> None:
    b = Builder()
    graph = b.graph(b.conv("conv", DATA, 3, 4))
    model = quantkit.load_model(symbol_of(graph), params=graph.params, input_shape=(3, 16, 16))
    looked_at = judged(quantkit.fuse(model, images(4)), images(4), silent)
    assert looked_at.balanced(graph) is looked_at
