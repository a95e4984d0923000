from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from quantkit.calibration.ranges import Range
from quantkit.quantization.arithmetic import LIMITS, DType, activation_params, affine_params, dequantize, quantize
from quantkit.quantization.weights import engine_integers, per_channel_int8


@pytest.mark.parametrize(("dtype", "values"), [("uint8", Range(0.0, 6.0)), ("int8", Range(-3.0, 2.0))])
def test_quantization_errs_by_half_a_step_inside_the_range(dtype: DType, values: Range) -> None:
    params = activation_params(values, dtype)
    reals = np.linspace(values.low, values.high, 4001).astype(np.float32)
    error = np.abs(dequantize(quantize(reals, params), params) - reals)
    assert error.max() <= params.scale * 0.501
    assert quantize(reals, params).dtype == dtype
    assert dequantize(quantize(reals, params), params).dtype == np.float32


MAGNITUDES = st.floats(1e-6, 1e6, allow_nan=False)
# Of float32: the quotient, the product and the scale are each rounded.
ROUNDING = 1 + 3 * 2.0**-16


@given(MAGNITUDES, st.sampled_from(["int8", "uint8"]), hnp.arrays(np.float32, 40, elements=st.floats(-4, 4, width=32)))
def test_any_value_errs_by_half_a_step_or_saturates(magnitude: float, dtype: DType, shares: np.ndarray) -> None:
    values = Range(0.0 if dtype == "uint8" else -magnitude, magnitude)
    params = activation_params(values, dtype)
    reals = (shares * np.float32(magnitude)).astype(np.float32)
    integers = quantize(reals, params)
    found = dequantize(integers, params)
    inside = (reals >= values.low) & (reals <= values.high)
    assert (np.abs(found - reals)[inside] <= 0.5 * params.scale * ROUNDING).all()
    low, high = LIMITS[dtype]
    assert (integers[reals > values.high] == high).all()
    assert (integers[reals < values.low] == low).all()
    # What are integers already stay what they are.
    np.testing.assert_array_equal(quantize(found, params), integers)


@given(st.lists(MAGNITUDES, min_size=1, max_size=6), st.integers(0, 2**16))
def test_weights_err_by_half_a_step_of_their_channel(magnitudes: list[float], seed: int) -> None:
    weight = np.random.default_rng(seed).uniform(-1, 1, (len(magnitudes), 20)) * np.array(magnitudes)[:, None]
    weight = weight.astype(np.float32)
    for (integers, scale), levels in ((per_channel_int8(weight), 127.0), (engine_integers(weight), 127.5)):
        np.testing.assert_allclose(scale, np.abs(weight).max(axis=1) / levels, rtol=1e-6)
        assert (np.abs(integers * scale[:, None] - weight) <= 0.5 * scale[:, None] * ROUNDING).all()


def test_values_outside_saturate() -> None:
    params = activation_params(Range(0.0, 1.0), "uint8")
    assert quantize(np.array([-5.0, 5.0]), params).tolist() == [0, 255]


@pytest.mark.parametrize("values", [Range(-0.7, 2.1), Range(0.5, 3.0), Range(-4.0, -1.0), Range(-1e-3, 90.0)])
def test_a_true_zero_point_leaves_no_level_unused(values: Range) -> None:
    params = affine_params(values)
    low, high = min(values.low, 0), max(values.high, 0)
    reals = np.linspace(low, high, 4001).astype(np.float32)
    integers = quantize(reals, params)
    assert params.dtype == "uint8"
    assert set(integers) == set(range(256))
    # The zero point is rounded, which costs up to half a step at one end.
    assert np.abs(dequantize(integers, params) - reals).max() <= params.scale * 1.001
    assert dequantize(quantize(np.zeros(1), params), params) == 0


@pytest.mark.parametrize("values", [Range(0.0, 0.0), Range(-1e-40, 1e-40), Range(0.0, 1e-30)])
def test_a_tensor_of_zeros_has_parameters(values: Range) -> None:
    params = affine_params(values)
    assert (params.scale, params.zero_point) == (1.0, 0)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(("dtype", "low"), [("uint8", 0.0), ("int8", -2.5)])
def test_the_engine_quantizes_alike(dtype: DType, low: float) -> None:
    from quantkit.backends.mxnet.execute import run
    from quantkit.ir.graph import Graph, Node, Tensor

    attrs = {"out_type": dtype, "min_calib_range": str(low), "max_calib_range": "2.5"}
    node = Node("q", "_contrib_quantize_v2", (Tensor("data"),), attrs)
    reals = np.random.default_rng(0).uniform(low * 1.2, 3, size=(1, 3, 40, 40)).astype(np.float32)
    found = run(Graph((node,), ("data",), (Tensor("q"),)), {"data": reals})[0].astype(int)
    expected = quantize(reals, activation_params(Range(low, 2.5), dtype)).astype(int)
    # Ties and the last bit of the scale may fall either way.
    assert np.abs(found - expected).max() <= 1
    assert (found != expected).mean() < 1e-3
