from __future__ import annotations

import numpy as np
import pytest

from quantkit.calibration.ranges import Range
from quantkit.quantization.arithmetic import DType, activation_params, dequantize, quantize


@pytest.mark.parametrize(("dtype", "values"), [("uint8", Range(0.0, 6.0)), ("int8", Range(-3.0, 2.0))])
def test_quantization_errs_by_half_a_step_inside_the_range(dtype: DType, values: Range) -> None:
    params = activation_params(values, dtype)
    reals = np.linspace(values.low, values.high, 4001).astype(np.float32)
    error = np.abs(dequantize(quantize(reals, params), params) - reals)
    assert error.max() <= params.scale * 0.501
    assert quantize(reals, params).dtype == dtype


def test_values_outside_saturate() -> None:
    params = activation_params(Range(0.0, 1.0), "uint8")
    assert quantize(np.array([-5.0, 5.0]), params).tolist() == [0, 255]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("dtype", "low"), [("uint8", 0.0), ("int8", -2.5)])
def test_the_engine_quantizes_alike(dtype: DType, low: float) -> None:
    from quantkit.engine.execute import run
    from quantkit.graph.graph import Graph, Node, Tensor

    attrs = {"out_type": dtype, "min_calib_range": str(low), "max_calib_range": "2.5"}
    node = Node("q", "_contrib_quantize_v2", (Tensor("data"),), attrs)
    reals = np.random.default_rng(0).uniform(low * 1.2, 3, size=(1, 3, 40, 40)).astype(np.float32)
    found = run(Graph((node,), ("data",), (Tensor("q"),)), {"data": reals})[0].astype(int)
    expected = quantize(reals, activation_params(Range(low, 2.5), dtype)).astype(int)
    # Ties and the last bit of the scale may fall either way.
    assert np.abs(found - expected).max() <= 1
    assert (found != expected).mean() < 1e-3
