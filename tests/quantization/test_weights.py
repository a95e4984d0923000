from __future__ import annotations

import numpy as np
import pytest

from quantkit.quantization.weights import (
    engine_integers,
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
    for is_convolution in (True, False):
        assert peak_scale(weight, is_convolution)[1] == 1


def test_healthy_weights_are_left_alone() -> None:
    weight = np.random.default_rng(0).normal(size=(8, 3, 3, 3)).astype(np.float32)
    assert without_dead_channels(weight, np.ones(8, np.float32), 0.02, 0.02) is weight


def test_dead_channels_get_weights_that_neither_overflow_nor_matter() -> None:
    weight = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32)
    weight[1] = 0.0
    weight[2] *= 1e-20
    bias = np.array([0.5, 3.0, -3.0, 0.0], np.float32)
    data_scale, output_scale = 0.01, 0.05
    safe = without_dead_channels(weight, bias, data_scale, output_scale)
    np.testing.assert_array_equal(safe[[0, 3]], weight[[0, 3]])
    steps = np.abs(safe).reshape(4, -1).max(axis=1) / 127.5 * data_scale
    assert np.all(np.abs(bias) / steps <= 2.0**29 * 1.001)
    largest_effect = np.abs(safe - weight).reshape(4, -1).sum(axis=1) * 255 * data_scale
    assert np.all(largest_effect <= np.maximum(1.01e-4 * output_scale, np.abs(bias) * 2.0**-13))


def test_integers_times_scales_give_the_same_again_to_the_last_bit() -> None:
    weight = np.random.default_rng(0).normal(size=(5000, 8)).astype(np.float32)
    weight[7] = 0.0
    integers, scale = per_channel_int8(weight)
    again = per_channel_int8(integers * scale[:, None])
    np.testing.assert_array_equal(again[0], integers)
    np.testing.assert_array_equal(again[1], scale)
