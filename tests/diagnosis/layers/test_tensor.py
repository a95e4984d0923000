"""How values fit into integers, against NumPy over all values at once."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.calibration.histogram import Histogram
from quantkit.calibration.methods import METHODS, observer
from quantkit.calibration.ranges import Range
from quantkit.diagnosis.layers.tensor import TensorUse, TensorWatch, bins, grid, percentiles
from quantkit.quantization.arithmetic import activation_params, quantize
from quantkit.quantization.plan import TensorQuantization

SIGNED = TensorQuantization(Range(-2.0, 2.0), "int8")
UNSIGNED = TensorQuantization(Range(0.0, 2.0), "uint8")


def watched(values: np.ndarray, form: TensorQuantization, halved: bool = False, method: str = "minmax") -> TensorUse:
    watch = TensorWatch(grid(form, halved))
    for start in range(0, len(values), 4):
        watch.add(values[start : start + 4])
    return watch.use("tensor", method, None)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("form", [SIGNED, UNSIGNED], ids=["int8", "uint8"])
def test_shares_against_all_values_at_once(form: TensorQuantization) -> None:
    values = normal(10, 5, 8, 8) if form is SIGNED else np.abs(normal(10, 5, 8, 8))
    values[:, 3] *= 0.01
    use = watched(values, form)
    params = activation_params(form.range, form.dtype)
    integers = quantize(values, params)
    lost = np.abs(values - integers * params.scale)
    assert use.saturated == pytest.approx((lost > 0.501 * params.scale).mean())
    assert 0.02 < use.saturated < 0.06
    assert use.levels == len(np.unique(integers)) / 256
    assert use.narrow_channels == 0.2
    assert (use.values, use.minimum, use.maximum) == (values.size, values.min(), values.max())


def test_a_calibrated_maximum_is_not_cut_off() -> None:
    assert watched(np.full((4, 1, 2, 2), 2.0, np.float32), UNSIGNED).saturated == 0
    assert watched(np.full((4, 1, 2, 2), 2.01, np.float32), UNSIGNED).saturated == 1


def test_a_sum_in_seven_bits_uses_half_of_the_integers() -> None:
    values = np.linspace(0, 2, 4000, dtype=np.float32).reshape(4, 1, -1)
    assert watched(values, UNSIGNED).levels == 1
    assert watched(values, UNSIGNED, halved=True).levels == 0.5
    assert watched(values * 1.1, UNSIGNED, halved=True).saturated == pytest.approx(0.1 / 1.1, abs=0.01)


@pytest.mark.parametrize("method", METHODS)
def test_ranges_are_those_of_the_calibration_method(method: str) -> None:
    values = normal(9, 2, 6, 6)
    chooser = observer(method)
    chooser.observe(values)
    halves = []
    for half in (0, 1):
        own = observer(method)
        own.observe(values[half::2])
        halves.append(own.range().largest)
    whole = chooser.range().largest
    use = watched(values, SIGNED, method=method)
    assert use.measured == whole
    assert use.half_change == pytest.approx(max(abs(half - whole) for half in halves) / whole)


def test_percentiles_to_one_bin() -> None:
    values = np.concatenate([normal(5000), np.zeros(500, np.float32)])
    histogram = Histogram()
    histogram.add(values)
    computed = percentiles(histogram, (1.0, 50.0, 99.9))
    for percent, value in computed.items():
        assert value == pytest.approx(np.percentile(values, percent, method="inverted_cdf"), abs=1.01 * histogram.width)


@pytest.mark.parametrize(
    "values", [normal(1000), np.abs(normal(1000)), np.zeros(10, np.float32), -np.ones(3, np.float32)]
)
def test_bins_hold_every_value_where_it_lies(values: np.ndarray) -> None:
    histogram = Histogram()
    histogram.add(values)
    coarse = bins(histogram, 64)
    assert sum(coarse.counts) == values.size
    assert len(coarse.counts) <= 64
    edges = coarse.start + coarse.width * np.arange(len(coarse.counts) + 1)
    assert edges[0] <= values.min() + 1e-6
    assert edges[-1] >= values.max() - 1e-6
    # A value on the edge between two bins may be counted in either.
    expected = np.histogram(values, edges)[0]
    assert np.abs(np.cumsum(expected) - np.cumsum(coarse.counts)).max() <= 1 + (values == 0).sum()
