"""The squared error against real quantization of the values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantkit.calibration.mse import Mse, squared_error

Array = np.ndarray[Any, Any]

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _the_same_numbers_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "RANDOM", np.random.default_rng(0))


TENSORS = {
    "normal": RANDOM.standard_normal(40_000),
    "rectified": np.maximum(RANDOM.standard_normal(40_000), 0),
    "heavy": RANDOM.standard_t(2, 40_000),
    "uniform": RANDOM.uniform(0, 1, 40_000),
    "clipped": np.clip(RANDOM.standard_normal(40_000) * 4, 0, 6),
    "outlier": np.append(RANDOM.standard_normal(40_000), 300.0),
    "tiny": RANDOM.laplace(size=40_000) * 1e-30,
    "few": RANDOM.standard_normal(50),
}


def quantization_error(values: Array, threshold: float, levels: int) -> float:
    """The mean squared error of rounding to the engine's integers and back."""
    step = threshold / levels
    lowest = 0 if values.min() >= 0 else -levels
    quantized = np.clip(np.rint(values / step), lowest, levels) * step
    return float(np.mean((values - quantized) ** 2))


def observed(values: Array) -> Mse:
    observer = Mse()
    observer.observe(values)
    return observer


@pytest.mark.parametrize("name", TENSORS)
def test_no_threshold_is_much_better(name: str) -> None:
    values = TENSORS[name].astype(np.float32).astype(np.float64)
    observer = observed(values)
    levels = 255 if values.min() >= 0 else 127
    largest = np.abs(values).max()
    best = min(quantization_error(values, t, levels) for t in largest * 2.0 ** np.linspace(0, -12, 400))
    ours = quantization_error(values, observer.threshold(), levels)
    # With few values, the place of each inside its bin matters.
    assert ours <= best * (1.25 if values.size < 1000 else 1.02)


@pytest.mark.parametrize("name", ["normal", "rectified", "heavy", "uniform", "outlier"])
@pytest.mark.parametrize("share", [1.0, 0.7, 0.3, 0.1])
def test_squared_error_is_that_of_real_quantization(name: str, share: float) -> None:
    values = TENSORS[name].astype(np.float32).astype(np.float64)
    histogram = observed(values).histogram
    levels = 255 if values.min() >= 0 else 127
    threshold = share * histogram.largest
    predicted = squared_error(histogram.magnitudes(), threshold / histogram.width, levels) * histogram.width**2
    assert predicted / values.size == pytest.approx(quantization_error(values, threshold, levels), rel=0.02)


def test_squared_error_is_the_integral() -> None:
    """Against a Riemann sum over evenly spread values."""
    counts = RANDOM.integers(0, 9, 40)
    points = (np.arange(40 * 5000) + 0.5) / 5000
    weights = np.repeat(counts, 5000) / 5000
    for threshold in (3.7, 20.0, 40.0):
        step = threshold / 15
        errors = (points - np.minimum(np.rint(points / step), 15) * step) ** 2
        assert squared_error(counts, threshold, 15) == pytest.approx(float(errors @ weights), rel=1e-5)
