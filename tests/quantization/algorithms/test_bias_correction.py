from __future__ import annotations

import numpy as np
import pytest

from quantkit.quantization.algorithms.bias_correction import bias_correction

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _the_same_numbers_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "RANDOM", np.random.default_rng(0))


def unchanged(values: np.ndarray) -> np.ndarray:
    return values


def relu(values: np.ndarray) -> np.ndarray:
    return np.maximum(values, 0)


def test_a_shift_that_all_images_show_is_taken_up() -> None:
    found = RANDOM.normal(size=(20, 3, 5, 5))
    wanted = found + np.array([1.0, -2.0, 3.0])[:, None, None] + 0.1 * RANDOM.normal(size=found.shape)
    change = bias_correction(wanted, found, unchanged, rectified=False)
    np.testing.assert_allclose(change, (wanted - found).mean(axis=(0, 2, 3)), rtol=1e-5)


def test_noise_is_fitted_less_than_its_mean_would() -> None:
    """The correction comes nearer to the true shift of 0 than the mean does."""
    found = np.zeros((500, 8, 1, 4))
    wanted = RANDOM.normal(size=found.shape)
    changes = np.array([bias_correction(a, b, unchanged, rectified=False)[0] for a, b in zip(wanted, found)])
    assert np.square(changes).mean() < 0.8 * np.square(wanted.mean(axis=(1, 2, 3))).mean()
    assert (changes == 0).mean() > 0.3


def test_positions_that_a_relu_silences_do_not_count() -> None:
    wanted = np.full((10, 1, 2, 2), -5.0)
    found = np.full((10, 1, 2, 2), -8.0)
    wanted[:, :, 0, 0], found[:, :, 0, 0] = 2.5, 2.0
    np.testing.assert_allclose(bias_correction(wanted, found, relu, rectified=True), [0.5])


def test_the_mean_error_is_that_over_positions_where_either_is_active() -> None:
    """Of five positions one is active as it should be alone, one as it is alone, one both; 0 itself is flat."""
    wanted, found = (
        np.tile(values, (6, 1, 1)) for values in ([1.0, 3.0, -1.0, 0.0, -2.0], [-0.2, 2.0, 0.1, -1.0, -3.0])
    )
    change = bias_correction(wanted, found, relu, rectified=True)
    np.testing.assert_allclose(change, [(1.0 + 1.0 - 0.1) / 3], rtol=1e-6)


def test_a_channel_that_is_never_active_is_left_alone() -> None:
    wanted = np.full((4, 2, 3), -1.0)
    np.testing.assert_array_equal(bias_correction(wanted, wanted - 1, relu, rectified=True), [0, 0])


def test_one_image_is_taken_at_its_word() -> None:
    found = np.zeros((1, 2, 3))
    np.testing.assert_allclose(bias_correction(found + 0.25, found, unchanged, rectified=False), [0.25, 0.25])


def of_one_channel(exact: np.ndarray, present: np.ndarray, rectified: bool) -> float:
    """The mean error over active positions, where it helps each half on the other's images."""
    activate = relu if rectified else unchanged

    def shift(images: np.ndarray) -> float:
        error = activate(exact[images]) - activate(present[images])
        active = (np.maximum(exact[images], present[images]) > 0) if rectified else np.full(error.shape, True)
        return float(error.sum() / max(active.sum(), 1))

    def error(images: np.ndarray, change: float) -> float:
        return float(np.square(activate(exact[images]) - activate(present[images] + change)).sum())

    numbers = np.arange(len(exact))
    even, odd = numbers[numbers % 2 == 0], numbers[numbers % 2 == 1]
    after = error(even, shift(odd)) + error(odd, shift(even))
    return shift(numbers) if after < error(numbers, 0.0) else 0.0


@pytest.mark.parametrize("rectified", [True, False])
@pytest.mark.parametrize("count", [2, 3, 7, 8])
def test_it_is_what_the_formula_says(count: int, rectified: bool) -> None:
    """Errors of the size of their noise, so that some channels are corrected and some are not."""
    random = np.random.default_rng(count)
    wanted = random.normal(size=(count, 40, 2, 3)).astype(np.float32)
    found = (wanted + random.normal(0, 0.15, (1, 40, 1, 1)) + random.normal(0, 0.5, wanted.shape)).astype(np.float32)
    change = bias_correction(wanted, found, relu if rectified else unchanged, rectified)
    channels = zip(wanted.swapaxes(0, 1).astype(np.float64), found.swapaxes(0, 1).astype(np.float64))
    expected = [of_one_channel(exact, present, rectified) for exact, present in channels]
    np.testing.assert_allclose(change, expected, rtol=1e-4, atol=1e-6)
    assert 0 < np.count_nonzero(expected) < len(expected)
    assert change.dtype == np.float32


def test_one_active_position_of_one_image_is_the_whole_mean() -> None:
    wanted, found = (np.array([[[first, -1.0]]], np.float32) for first in (0.5, 0.2))
    change = bias_correction(wanted, found, relu, True)
    np.testing.assert_allclose(change, [0.3], rtol=1e-6)
    assert change.dtype == np.float32


def test_small_errors_are_not_lost_among_large_ones() -> None:
    found = np.zeros((1, 1, 3), np.float32)
    wanted = np.array([[[1e8, 3, -1e8]]], np.float32)
    np.testing.assert_allclose(bias_correction(wanted, found, unchanged, False), [1])
