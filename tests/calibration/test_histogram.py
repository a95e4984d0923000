"""The histogram against plain counting, and its independence of how the values are split."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from quantkit.calibration import histogram as module
from quantkit.calibration.histogram import BINS, Histogram
from quantkit.errors import DataError

Array = np.ndarray[Any, Any]

VALUES = hnp.arrays(
    np.float32,
    st.integers(1, 40),
    elements=st.one_of(
        st.floats(-8, 8, width=32),
        st.floats(allow_nan=False, allow_infinity=False, width=32),
        st.sampled_from([0.0, -0.0, 1.0, 2.0, float(np.float32(1e-45)), float(np.float32(-1e-45)), 6.0]),
    ),
)


def counted(values: Array) -> Histogram:
    histogram = Histogram()
    histogram.add(values)
    return histogram


def same(one: Histogram, other: Histogram) -> bool:
    return (
        np.array_equal(one.positive, other.positive)
        and np.array_equal(one.negative, other.negative)
        and (one.zeros, one.total, one.minimum, one.maximum, one.width)
        == (other.zeros, other.total, other.minimum, other.maximum, other.width)
    )


def check_against_counting(values: Array) -> None:
    """One value at a time, in exact arithmetic: Python integers of the smallest float32."""
    histogram = counted(values)
    positive, negative, zeros = np.zeros(BINS, int), np.zeros(BINS, int), 0
    unit = int(math.ldexp(histogram.width, 149))
    for value in values.ravel().tolist():
        if value == 0:
            zeros += 1
        else:
            index = int(math.ldexp(abs(value), 149)) // unit
            (positive if value > 0 else negative)[index] += 1
    np.testing.assert_array_equal(histogram.positive, positive)
    np.testing.assert_array_equal(histogram.negative, negative)
    assert histogram.zeros == zeros
    assert histogram.total == values.size
    assert (histogram.minimum, histogram.maximum) == (values.min(), values.max())


@settings(deadline=None, max_examples=60)
@given(VALUES)
def test_counts_what_counting_one_by_one_counts(values: Array) -> None:
    check_against_counting(values)


@pytest.mark.parametrize("scale", [1e-42, 1e-37, 1e-30, 1e-7, 1.0, 1e7, 1e37])
@pytest.mark.parametrize("sides", ["both", "positive", "negative"])
def test_counts_at_any_scale(scale: float, sides: str) -> None:
    values = np.random.default_rng(0).standard_normal(3000) * scale
    if sides != "both":
        values = np.abs(values) if sides == "positive" else -np.abs(values)
    check_against_counting(values.astype(np.float32))


def test_counts_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).standard_normal((10, 33)).astype(np.float32)
    whole = counted(values)
    monkeypatch.setattr(module, "_CHUNK", 7)
    assert same(counted(values), whole)


@settings(deadline=None, max_examples=200)
@given(VALUES, st.lists(st.integers(0, 40), max_size=4), st.randoms())
def test_the_split_into_batches_and_their_order_do_not_matter(values: Array, cuts: list[int], random: Any) -> None:
    whole = counted(values)
    parts = np.split(values, sorted(min(cut, values.size) for cut in cuts))
    random.shuffle(parts)
    stream, merged = Histogram(), Histogram()
    for part in parts:
        stream.add(part)
        merged.merge(counted(part))
    assert same(stream, whole)
    assert same(merged, whole)


def test_the_largest_value_lies_in_the_upper_half_of_the_bins() -> None:
    for largest in (1.0, 1.9999999, 2.0, 6.0, 1e-7, 1e-30, 3e38):
        assert BINS // 2 < counted(np.array([largest, 0.0], np.float32)).used <= BINS


def test_memory_does_not_grow() -> None:
    histogram = counted(np.ones(10, np.float32))
    for power in range(-40, 38):
        histogram.add(np.full(1000, 10.0**power, np.float32))
    assert histogram.positive.shape == histogram.negative.shape == (BINS,)


def test_an_all_zero_batch_first_changes_nothing() -> None:
    histogram = counted(np.zeros(5, np.float32))
    assert histogram.largest == 0 and histogram.used == 0
    histogram.add(np.array([1e-7, -2e-7], np.float32))
    assert same(histogram, counted(np.array([1e-7, -2e-7, 0, 0, 0, 0, 0], np.float32)))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_refuses_what_is_not_finite_and_stays_as_it_was(bad: float) -> None:
    histogram = counted(np.array([1.0, -2.0], np.float32))
    with pytest.raises(DataError, match="NaN or infinite"):
        histogram.add(np.array([100.0, bad, 3.0], np.float32))
    assert same(histogram, counted(np.array([1.0, -2.0], np.float32)))
