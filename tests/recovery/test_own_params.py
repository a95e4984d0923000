from __future__ import annotations

import numpy as np
import pytest

from quantkit.emission.mxnet_float import float_graph
from quantkit.engine.execute import run
from quantkit.fusion.unit import unit_of
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.recovery.own_params import with_own_params
from tests.networks import DATA, Builder, images
from tests.recovery.networks import planned

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
    units = [unit for unit in map(unit_of, own.nodes) if unit is not None]
    names = [tensor.node for unit in units for tensor in (unit.weight, unit.bias) if tensor is not None]
    assert len(units) == 3
    assert len(set(names)) == 6
    for before, after in zip(run(float_graph(fused.graph), {"data": data}), run(float_graph(own), {"data": data})):
        np.testing.assert_allclose(after, before, atol=1e-5)


def test_layers_that_stay_fp32_are_left_alone() -> None:
    b = Builder()
    graph = b.graph(b.conv("conv", DATA, 3, 4, bias=False))
    fused, plan = planned(graph, images(), "conv")
    assert with_own_params(QuantizedGraph(fused.graph, plan)).graph is fused.graph
