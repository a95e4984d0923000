from __future__ import annotations

from typing import Optional

import numpy as np
import pytest

from quantkit.quantization.weights import (
    engine_integers,
    engine_weights,
    multiples,
    peak_scale,
    per_channel_int8,
    without_dead_channels,
)


def test_per_channel_error_is_half_a_step_of_each_channel() -> None:
    weight = np.random.default_rng(0).normal(size=(8, 50)) * np.logspace(-6, 3, 8)[:, None]
    integers, scale = per_channel_int8(weight)
    assert np.all(np.abs(integers * scale[:, None] - weight) <= 0.5001 * scale[:, None])
    assert integers.dtype == np.int8
    assert np.abs(integers.astype(int)).max(axis=1).tolist() == [127] * 8


def test_multiples_saturate_at_127() -> None:
    rows = np.array([[1.4, -0.6, 100.0, 0.0], [300.0, -300.0, 2.0, 3.0]], np.float32)
    found = multiples(rows, np.array([1.0, 2.0], np.float32))
    assert found.tolist() == [[1, -1, 100, 0], [127, -127, 1, 2]]
    assert found.dtype == np.int8


def test_a_channel_of_zeros_stays_zero() -> None:
    integers, scale = per_channel_int8(np.zeros((2, 3)))
    assert not integers.any()
    assert np.isfinite(scale).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-36, 1e-40, 1e-44])
def test_channels_too_small_for_float32_count_as_zeros(size: float) -> None:
    """Trained batch normalizations leave such weights in dead channels."""
    weight = np.array([[1, -0.5], [size, -size / 2]], np.float32)
    for integers, scale in (per_channel_int8(weight), engine_integers(weight)):
        assert not integers[1].any()
        assert np.isfinite(scale).all()
    for levels in (63, 127, 127.5):
        assert peak_scale(weight, levels)[1] == 1


def test_healthy_weights_are_left_alone() -> None:
    weight = np.random.default_rng(0).normal(size=(8, 3, 3, 3)).astype(np.float32)
    assert without_dead_channels(weight, np.ones(8, np.float32), 0.02, 0.02) is weight


@pytest.mark.parametrize("bias", [None, np.array([0.5, 3.0, -3.0, 0.0, 1e-9, -40.0], np.float32)])
def test_dead_channels_get_weights_that_neither_overflow_nor_matter(bias: Optional[np.ndarray]) -> None:
    weight = np.random.default_rng(0).normal(size=(6, 3, 3, 3)).astype(np.float32)
    weight[1] = 0.0
    weight[2] *= 1e-20
    weight[2, 1, 1, 1] = -1e-18
    weight[4] *= 1e-20
    weight[4, 0, 2, 1] = 1e-18
    weight[5] = 0.0
    weight[5, 2, 0, 0] = -1e-30
    data_scale, output_scale = 0.01, 0.05
    safe = without_dead_channels(weight, bias, data_scale, output_scale)
    assert (safe.dtype, safe.shape) == (weight.dtype, weight.shape)
    np.testing.assert_array_equal(safe[[0, 3]], weight[[0, 3]])
    # One weight of each channel was raised, and kept its sign.
    raised = safe != weight
    assert raised.reshape(6, -1).sum(axis=1).tolist() == [0, 1, 1, 0, 1, 1]
    assert np.sign(safe[raised]).tolist() == [1, -1, 1, -1]
    effect = np.abs(safe[raised]) * 255 * data_scale
    allowed = np.full(4, 1e-4 * output_scale)
    if bias is not None:
        # The bias of these is 2^29 steps of the products.
        allowed = np.maximum(allowed, np.abs(bias[[1, 2, 4, 5]]) * 255 * 127.5 / 2**29)
    np.testing.assert_allclose(effect, allowed, rtol=1e-6)


def test_shapes_and_types() -> None:
    weight = np.random.default_rng(0).normal(size=(4, 3, 2, 1))
    for integers, scale in (per_channel_int8(weight), engine_integers(weight), engine_integers(weight, halved=True)):
        assert (integers.shape, integers.dtype) == ((4, 3, 2, 1), np.int8)
        assert (scale.shape, scale.dtype) == ((4,), np.float32)
    integers, scale = engine_integers(weight)
    again = engine_weights(integers, scale)
    assert (again.shape, again.dtype) == ((4, 3, 2, 1), np.float32)


def test_half_as_many_levels_make_steps_twice_as_large() -> None:
    weight = np.random.default_rng(0).normal(size=(16, 3, 3, 3)).astype(np.float32)
    _, whole = engine_integers(weight)
    integers, halved = engine_integers(weight, halved=True)
    np.testing.assert_allclose(halved, 2 * whole, rtol=1e-6)
    assert np.abs(integers.astype(int)).reshape(16, -1).max(axis=1).tolist() == [64] * 16
    assert np.abs(integers * halved[:, None, None, None] - weight).max() <= 0.501 * halved.max()


def test_integers_times_scales_give_the_same_again_to_the_last_bit() -> None:
    weight = np.random.default_rng(0).normal(size=(5000, 8)).astype(np.float32)
    weight[7] = 0.0
    integers, scale = per_channel_int8(weight)
    again = per_channel_int8(integers * scale[:, None])
    np.testing.assert_array_equal(again[0], integers)
    np.testing.assert_array_equal(again[1], scale)
