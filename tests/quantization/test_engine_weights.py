"""Integers, the floats that stand for them, and back."""

from __future__ import annotations

import numpy as np

from quantkit.quantization.weights import CONVOLUTION_LEVELS, LEVELS, engine_integers, engine_weights, peak_scale


def random_integers(seed: int, channels: int = 64) -> np.ndarray:
    """Integers from -127 to 127, every channel with a 127."""
    integers = np.random.default_rng(seed).integers(-127, 128, (channels, 3, 3, 3)).astype(np.float32)
    integers[:, 0, 0, 0] = 127
    return integers


def test_every_integer_comes_back_with_its_scale() -> None:
    for seed in range(20):
        integers = random_integers(seed)
        scale = np.random.default_rng(seed).uniform(1e-6, 10, len(integers)).astype(np.float32)
        found, steps = engine_integers(engine_weights(integers, scale))
        np.testing.assert_array_equal(found, integers)
        np.testing.assert_allclose(steps, scale, rtol=1e-6)


def test_a_channel_without_a_positive_peak_is_off_by_one_at_most() -> None:
    integers = -random_integers(0, 5000)
    integers[integers == 127] = 126
    scale = np.random.default_rng(0).uniform(1e-6, 10, len(integers)).astype(np.float32)
    found, steps = engine_integers(engine_weights(integers, scale))
    np.testing.assert_array_equal(found[integers > -127], integers[integers > -127])
    # Most of them can be had exactly; for some scales float32 has no number that the engine rounds down.
    assert set(np.unique(found[integers == -127])) <= {-127, -128}
    assert (found[integers == -127] == -127).mean() > 0.5
    np.testing.assert_allclose(steps, scale, rtol=1.1e-3)
    assert (steps <= scale * np.float32(1 + 2.0**-22)).all()


def test_zeros_stay_zeros() -> None:
    integers, scale = engine_integers(engine_weights(np.zeros((2, 4)), np.ones(2, np.float32)))
    assert not integers.any()
    assert np.isfinite(scale).all()


def test_the_peak_stands_for_the_highest_level() -> None:
    weight = np.array([[1.0, -2.0], [0.0, 0.0]], np.float32)
    np.testing.assert_allclose(peak_scale(weight, CONVOLUTION_LEVELS), [2 / 127.5, 1])
    np.testing.assert_allclose(peak_scale(weight, LEVELS), [2 / 127, 1])
