from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.calibration.ranges import Range
from quantkit.ir.graph import Graph, Tensor
from quantkit.quantization.algorithms.pre_add_ranges import with_measured_pre_add_ranges
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import images, inverted_residual, residual_v1, residual_v2
from tests.quantization.algorithms.networks import planned

pytestmark = pytest.mark.usefixtures("engine")


def before_the_sum(graph: Graph, data: np.ndarray) -> np.ndarray:
    """What the network that is not fused adds to its shortcut."""
    total = graph.by_name["add"]
    first, second = run(graph.with_outputs(total.inputs).pruned(), {"data": data})
    names = [tensor.node for tensor in total.inputs]
    return first if names[0] in ("bn2", "conv2", "narrow_bn") else second


@pytest.mark.parametrize("build", [residual_v1, residual_v2, inverted_residual])
def test_the_range_is_that_of_what_is_added(build: Callable[[], Graph]) -> None:
    data = images(8)
    fused, plan = planned(build(), data)
    batches = [data[:4], data[4:]]
    found = with_measured_pre_add_ranges(QuantizedGraph(fused.graph, plan), batches, 4, "minmax").plan.pre_add_ranges
    (span,) = found.values()
    values = before_the_sum(fused.original, data)
    np.testing.assert_allclose((span.low, span.high), (values.min(), values.max()), rtol=1e-4)


def test_sums_in_fp32_need_no_range() -> None:
    """Those that were measured while the layer ran in INT8 go."""
    data = images()
    fused, plan = planned(residual_v1(), data, "conv2")
    measured = replace(plan, pre_add_ranges={Tensor("relu2"): Range(-1.0, 1.0)})
    found = with_measured_pre_add_ranges(QuantizedGraph(fused.graph, measured), [data], 4, "minmax")
    assert vars(found.plan) == vars(plan)
    assert found.graph is fused.graph
