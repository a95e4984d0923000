from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.fused_layer import fused_layer_of
from quantkit.quantization.algorithms.own_params import with_own_params
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import DATA, Builder, images
from tests.quantization.algorithms.networks import planned
from tests.quantization.recurrent_networks import quantized
from tests.sequences import sequence_network, sequences

pytestmark = pytest.mark.usefixtures("engine")


def test_shared_and_missing_parameters_become_own_ones() -> None:
    b = Builder()
    first = b.relu("relu1", b.conv("conv1", DATA, 3, 3, bias=False))
    second = b.op(
        "Convolution", "conv2", first, b.nodes[0].inputs[1], kernel=(3, 3), pad=(1, 1), num_filter=3, no_bias=True
    )
    added = b.relu("relu2", b.op("elemwise_add", "add", second, first))
    graph = b.graph(b.conv("conv3", added, 3, 4, bias=False))
    data = images()
    fused, plan = planned(graph, data)
    own = with_own_params(QuantizedGraph(fused.graph, plan)).graph
    layers = [layer for layer in map(fused_layer_of, own.nodes) if layer is not None]
    names = [tensor.node for layer in layers for tensor in (layer.weight, layer.bias) if tensor is not None]
    assert len(layers) == 3
    assert len(set(names)) == 6
    for before, after in zip(run(float_graph(fused.graph), {"data": data}), run(float_graph(own), {"data": data})):
        np.testing.assert_allclose(after, before, atol=1e-5)


def test_lstm_layers_that_share_their_weights_have_own_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    data = sequences(4, tokens=False)
    _, network = quantized(monkeypatch, sequence_network("NTC"), data)
    first, second = network.int8_lstms
    shared = replace(second.node, inputs=(second.data, first.parameters))
    nodes = tuple(shared if node is second.node else node for node in network.graph.nodes)
    own = with_own_params(replace(network, graph=replace(network.graph, nodes=nodes)))
    before, after = (layer.parameters for layer in own.int8_lstms)
    assert before != after
    np.testing.assert_array_equal(own.graph.params[before.node], own.graph.params[after.node])
    assert with_own_params(own).graph is own.graph


def test_layers_that_stay_fp32_are_left_alone() -> None:
    b = Builder()
    graph = b.graph(b.conv("conv", DATA, 3, 4, bias=False))
    fused, plan = planned(graph, images(), "conv")
    assert with_own_params(QuantizedGraph(fused.graph, plan)).graph is fused.graph
