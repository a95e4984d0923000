from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.stock import stock_int8_graph, stock_int8_outputs
from quantkit.evaluation.agreement import cosines
from quantkit.ir.graph import Graph
from tests.networks import images, residual_v1, residual_v2

pytestmark = pytest.mark.usefixtures("int8_engine")


def stock_cosine(graph: Graph, mode: Literal["naive", "entropy"]) -> float:
    data = images(8)
    (found,) = stock_int8_outputs(graph, data, mode, [data], 8)
    return float(cosines(run(graph, {"data": data})[0], np.asarray(found)).mean())


# MXNet 1.6's entropy calibration gives other ranges each time, and sometimes a network that does not run.
@pytest.mark.parametrize("mode", ["naive", pytest.param("entropy", marks=pytest.mark.requires("onednn"))])
def test_stock_mxnet_quantizes_a_plain_network(mode: Literal["naive", "entropy"]) -> None:
    assert stock_cosine(residual_v1(), mode) > 0.99


def test_stock_mxnet_is_wrong_on_a_preactivation_network() -> None:
    assert stock_cosine(residual_v2(), "naive") < 0.99


def test_the_network_that_stock_mxnet_makes_runs_as_a_graph_too() -> None:
    data = images(8)
    (expected,) = stock_int8_outputs(residual_v2(), data, "naive", [data], 8)
    graph = stock_int8_graph(residual_v2(), data, "naive")
    assert "_contrib_quantized_batch_norm" in {node.op for node in graph.nodes}
    np.testing.assert_allclose(run(graph, {"data": data})[0], expected, atol=1e-5)


def test_operators_that_an_older_mxnet_lacks_in_int8_stay_in_float() -> None:
    data = images(8)
    ops = {node.op for node in stock_int8_graph(residual_v2(), data, "naive", in_float=("BatchNorm",)).nodes}
    assert "BatchNorm" in ops and "_contrib_quantized_batch_norm" not in ops
