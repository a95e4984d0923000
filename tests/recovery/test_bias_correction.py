from __future__ import annotations

import numpy as np

from quantkit.recovery.bias_correction import bias_correction

RANDOM = np.random.default_rng(0)


def everywhere(error: np.ndarray) -> np.ndarray:
    return np.ones_like(error, bool)


def test_a_shift_that_all_images_show_is_taken_up() -> None:
    error = RANDOM.normal(size=(20, 3, 5, 5)) * 0.1 + np.array([1.0, -2.0, 3.0])[:, None, None]
    np.testing.assert_allclose(bias_correction(error, everywhere(error)), error.mean(axis=(0, 2, 3)), rtol=1e-3)


def test_noise_is_not_fitted() -> None:
    """The correction comes nearer to the true shift of 0 than the mean does."""
    errors = RANDOM.normal(size=(500, 8, 1, 4))
    corrections = np.array([bias_correction(error, everywhere(error))[0] for error in errors])
    means = errors.mean(axis=(1, 2, 3))
    assert (corrections**2).mean() < 0.6 * (means**2).mean()
    assert (corrections == 0).mean() > 0.5


def test_positions_where_the_activation_is_flat_do_not_count() -> None:
    error = np.zeros((10, 1, 2, 2))
    active = np.zeros((10, 1, 2, 2), bool)
    error[:, :, 0, 0] = 0.5
    active[:, :, 0, 0] = True
    np.testing.assert_allclose(bias_correction(error, active), [0.5])


def test_a_channel_that_is_never_active_is_left_alone() -> None:
    error = np.zeros((4, 2, 3))
    np.testing.assert_array_equal(bias_correction(error, np.zeros_like(error, bool)), [0, 0])


def test_one_image_is_taken_at_its_word() -> None:
    np.testing.assert_allclose(bias_correction(np.full((1, 2, 3), 0.25), np.ones((1, 2, 3), bool)), [0.25, 0.25])
