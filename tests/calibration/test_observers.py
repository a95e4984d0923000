"""What holds for the observers of all methods."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantkit.calibration.methods import METHODS, observer
from quantkit.calibration.ranges import Range
from quantkit.errors import DataError, UserError

Array = np.ndarray[Any, Any]

every_method = pytest.mark.parametrize("method", [*METHODS, "percentile:99"])


def range_of(method: str, *batches: Array) -> Range:
    watching = observer(method)
    for batch in batches:
        watching.observe(batch)
    return watching.range()


@every_method
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 99), cuts=st.lists(st.integers(0, 2000), max_size=3), one_sided=st.booleans())
def test_split_and_merge_do_not_change_the_range(method: str, seed: int, cuts: list[int], one_sided: bool) -> None:
    values = np.random.default_rng(seed).standard_cauchy(2000).astype(np.float32)
    values = np.maximum(values, 0) if one_sided else values
    whole = range_of(method, values)
    parts = np.split(values, sorted(cuts))
    assert range_of(method, *parts) == whole
    total = observer(method)
    for part in reversed(parts):
        shard = observer(method)
        shard.observe(part)
        total.merge(pickle.loads(pickle.dumps(shard)))
    assert total.range() == whole


@every_method
@pytest.mark.parametrize("scale", [1e-30, 1e-7, 1e6])
def test_small_and_large_values_keep_their_scale(method: str, scale: float) -> None:
    values = np.random.default_rng(0).laplace(size=5000).astype(np.float32)
    factor = 2.0 ** round(math.log2(scale))
    plain, scaled = range_of(method, values), range_of(method, values * np.float32(factor))
    assert scaled == Range(plain.low * factor, plain.high * factor)


@every_method
def test_never_negative_gives_a_range_from_zero_or_above(method: str) -> None:
    found = range_of(method, np.random.default_rng(0).exponential(size=3000))
    assert found.low >= 0 and found.high > 0.5


@every_method
def test_range_stays_inside_the_values(method: str) -> None:
    values = np.concatenate([np.random.default_rng(0).uniform(0, 9, 3000), [-0.25]]).astype(np.float32)
    found = range_of(method, values)
    assert found.low >= -0.25 and 0 < found.high <= values.max()


@every_method
def test_all_negative_values(method: str) -> None:
    values = -np.random.default_rng(0).uniform(1, 2, 3000)
    found = range_of(method, values)
    assert -2 <= found.low < -1.5
    assert found.high == (np.float32(values.max()) if method == "minmax" else 0.0)


@every_method
def test_all_zero_gives_the_zero_range(method: str) -> None:
    with np.errstate(all="raise"):
        assert range_of(method, np.zeros((2, 3)), np.zeros(0)) == Range(0.0, 0.0)


@every_method
@pytest.mark.parametrize("value", [3.0, -3.0, 1e-45, -3e38])
def test_one_value_is_inside(method: str, value: float) -> None:
    value = float(np.float32(value))
    found = range_of(method, np.array([value], np.float32))
    assert found.largest <= abs(value)
    assert found.largest == pytest.approx(abs(value), rel=2e-2)


@every_method
def test_nothing_observed_is_an_error(method: str) -> None:
    for batches in ((), (np.zeros((0, 3), np.float32),)):
        with pytest.raises(DataError, match="no values"):
            range_of(method, *batches)


@every_method
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_an_error(method: str, bad: float) -> None:
    with pytest.raises(DataError, match="NaN or infinite"):
        range_of(method, np.array([0.5, bad], np.float32))


@every_method
def test_another_kind_or_setting_does_not_merge(method: str) -> None:
    for other in (*METHODS, "percentile:98"):
        if other != method:
            with pytest.raises(UserError, match="cannot merge"):
                observer(method).merge(observer(other))


def test_minmax_is_exact() -> None:
    values = np.random.default_rng(0).standard_normal((4, 100)).astype(np.float32)
    assert range_of("minmax", *values) == Range(float(values.min()), float(values.max()))
