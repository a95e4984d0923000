from __future__ import annotations

import pytest

from quantkit.backends.mxnet.shapes import check_runs, infer_shapes
from quantkit.errors import EngineError
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.graph import Tensor
from tests.networks import DATA, Builder, residual_v1

pytestmark = pytest.mark.usefixtures("engine")


def test_shapes() -> None:
    shapes = infer_shapes(residual_v1(), {"data": (2, 3, 16, 16)})
    assert shapes[Tensor("pool")] == (2, 16, 1, 1)
    assert shapes[Tensor("dense")] == (2, 10)
    assert shapes[Tensor("conv0_weight")] == (16, 3, 3, 3)


def test_a_shape_that_does_not_fit_is_refused_in_one_line() -> None:
    with pytest.raises(EngineError) as caught:
        infer_shapes(residual_v1(), {"data": (1, 5, 16, 16)})
    assert "\n" not in str(caught.value)


def test_the_batch_of_zeros_may_follow_from_what_reads_a_layers_result() -> None:
    b = Builder()
    zeros = b.op("_zeros", "zeros", shape=(0, 4))
    total = b.op("elemwise_add", "total", b.dense("of_data", DATA, 5, 3), b.dense("of_zeros", zeros, 4, 3))
    check_runs(float_graph(b.graph(total)), {"data": (2, 5)})
