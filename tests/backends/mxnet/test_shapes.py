from __future__ import annotations

import pytest

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.errors import EngineError
from quantkit.ir.graph import Tensor
from tests.networks import residual_v1

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
