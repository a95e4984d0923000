from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.stock import stock_int8_outputs
from quantkit.evaluation.agreement import cosines
from quantkit.ir.graph import Graph
from tests.networks import images, residual_v1, residual_v2

pytestmark = pytest.mark.usefixtures("int8_engine")


def stock_cosine(graph: Graph, mode: Literal["naive", "entropy"]) -> float:
    data = images(8)
    (found,) = stock_int8_outputs(graph, data, mode, [data], 8)
    return float(cosines(run(graph, {"data": data})[0], np.asarray(found)).mean())


@pytest.mark.parametrize("mode", ["naive", "entropy"])
def test_stock_mxnet_quantizes_a_plain_network(mode: Literal["naive", "entropy"]) -> None:
    assert stock_cosine(residual_v1(), mode) > 0.99


def test_stock_mxnet_is_wrong_on_a_preactivation_network() -> None:
    assert stock_cosine(residual_v2(), "naive") < 0.99
