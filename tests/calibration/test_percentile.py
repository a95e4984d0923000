"""Percentiles of the histogram against those of the values."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.calibration.percentile import Percentile


@pytest.mark.parametrize("percent", [1.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0])
@pytest.mark.parametrize("shape", ["normal", "rectified", "uniform", "heavy", "tiny"])
def test_within_a_bin_of_the_exact_percentile(percent: float, shape: str) -> None:
    random = np.random.default_rng(0)
    values = {
        "normal": random.standard_normal(200_000),
        "rectified": np.maximum(random.standard_normal(200_000), 0),
        "uniform": random.uniform(-3, 1, 200_000),
        "heavy": random.standard_t(3, 200_000),
        "tiny": random.standard_normal(200_000) * 1e-30,
    }[shape].astype(np.float32)
    observer = Percentile(percent)
    observer.observe(values)
    # Between the values on both sides of the rank anything is a percentile.
    magnitudes = np.abs(values)
    below = float(np.percentile(magnitudes, percent, method="lower"))
    above = float(np.percentile(magnitudes, percent, method="higher"))
    if above == 0:
        assert observer.range().largest == magnitudes.max()
        return
    width = observer.histogram.width
    assert width <= magnitudes.max() / 4096
    assert below - width <= observer.range().largest <= above + width


def test_hundred_per_cent_is_the_exact_maximum() -> None:
    values = np.random.default_rng(0).exponential(size=999).astype(np.float32)
    observer = Percentile(100)
    observer.observe(values)
    assert observer.range().high == values.max()


def test_a_tensor_of_nearly_all_zeros_is_not_cut_to_nothing() -> None:
    values = np.zeros(100_000, np.float32)
    values[7] = 5.0
    observer = Percentile(99.99)
    observer.observe(values)
    assert observer.range().high == 5.0


@pytest.mark.parametrize("percent", [3.0, 25.0, 40.0, 75.0, 100.0])
def test_inside_a_bin_the_values_count_as_evenly_spread(percent: float) -> None:
    """With a value in the middle of every bin, the percentile is the rank in bins."""
    bins = 8192
    values = (np.arange(bins) + 0.5) / bins
    observer = Percentile(percent)
    observer.observe(np.append(values, -values))
    assert observer.threshold() == pytest.approx(percent / 100)
    # Zeros come first.
    observer.observe(np.zeros(2 * bins))
    rank = percent / 100 * 4 * bins - 2 * bins
    assert observer.threshold() == pytest.approx(rank / (2 * bins) if rank > 0 else (bins - 0.5) / bins)


@pytest.mark.parametrize(("percent", "expected"), [(50, 3.0), (75, 1.0 + 1 / 2048), (62.5, 1.0 + 0.5 / 2048)])
def test_zeros_come_first(percent: float, expected: float) -> None:
    """The zeros are half of the values; where they alone are the share, nothing is cut."""
    observer = Percentile(percent)
    observer.observe(np.array([0.0, 0.0, 1.0, 3.0]))
    assert observer.threshold() == expected


def test_a_share_of_a_bin() -> None:
    observer = Percentile(25)
    observer.observe(np.array([1.0] * 8))
    # 1.0 is the lower edge of the last bin used, of 1 / 4096; a quarter of its values lie below a quarter of it.
    assert observer.threshold() == 1 + 0.25 / 4096
    assert observer.range().high == 1.0
