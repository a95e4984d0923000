from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from quantkit.emission.mxnet_int8 import int8_graph
from quantkit.emission.read_int8 import read_int8
from quantkit.engine.execute import run
from quantkit.errors import ModelError
from quantkit.graph import nnvm
from quantkit.graph.graph import Graph, Tensor
from quantkit.recovery.before_sum import with_ranges_before_sums
from tests.networks import images, inverted_residual, residual_v1, residual_v2
from tests.recovery.networks import planned

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
    found = with_ranges_before_sums(fused.graph, plan, batches, 4, "minmax").before_sums
    (span,) = found.values()
    values = before_the_sum(fused.original, data)
    np.testing.assert_allclose((span.low, span.high), (values.min(), values.max()), rtol=1e-4)


def test_the_range_goes_with_the_network() -> None:
    data = images()
    fused, plan = planned(residual_v1(), data)
    complete = with_ranges_before_sums(fused.graph, plan, [data], 4, "mse")
    int8 = int8_graph(fused.graph, complete)
    again = nnvm.parse(nnvm.serialize(int8), int8.params)
    assert read_int8(again)[1].before_sums == complete.before_sums
    assert list(complete.before_sums) == [Tensor("relu2")]


@pytest.mark.usefixtures("int8_engine")
def test_the_engine_does_not_mind_it() -> None:
    data = images()
    fused, plan = planned(residual_v1(), data)
    complete = with_ranges_before_sums(fused.graph, plan, [data], 4, "minmax")
    without, having = (run(int8_graph(fused.graph, each), {"data": data})[0] for each in (plan, complete))
    np.testing.assert_array_equal(having, without)


def test_sums_in_fp32_need_no_range() -> None:
    data = images()
    fused, plan = planned(residual_v1(), data, "conv2")
    assert with_ranges_before_sums(fused.graph, plan, [data], 4, "minmax") is plan


def test_a_damaged_range_is_refused() -> None:
    data = images()
    fused, plan = planned(residual_v1(), data)
    complete = with_ranges_before_sums(fused.graph, plan, [data], 4, "minmax")
    int8 = int8_graph(fused.graph, complete)
    text = nnvm.serialize(int8).replace(f"({complete.before_sums[Tensor('relu2')].low!r}", "(7e9")
    with pytest.raises(ModelError, match=r"__quantkit_range_before_sum__='\(7e9.* is no range"):
        read_int8(nnvm.parse(text, int8.params))
