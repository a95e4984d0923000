"""What holds for the observers of all methods."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from quantkit.calibration.methods import METHODS, observer
from quantkit.calibration.observer import Observer
from quantkit.calibration.ranges import Range
from quantkit.errors import DataError, UserError

Array = np.ndarray[Any, Any]

TWO_CUTS = st.lists(st.integers(0, 2000), min_size=2, max_size=2)

every_method = pytest.mark.parametrize("method", [*METHODS, "percentile:99"])


def range_of(method: str, *batches: Array) -> Range:
    watching = observer(method)
    for batch in batches:
        watching.observe(batch)
    return watching.range()


VALUES = hnp.arrays(
    np.float32,
    st.integers(1, 60),
    elements=st.one_of(
        st.floats(-8, 8, width=32),
        st.floats(allow_nan=False, allow_infinity=False, width=32),
        st.sampled_from([0.0, -0.0, 1.0, -1.0]),
    ),
)


def shared_out(method: str, values: Array, draw: st.DataObject) -> Observer:
    """The values in any order and any batches, watched by any number of observers that merge in any order."""
    shuffled = values[draw.draw(st.permutations(range(values.size)), "order")]
    cuts = draw.draw(st.lists(st.integers(0, values.size), max_size=6).map(sorted), "cuts")
    shards = [observer(method) for _ in range(draw.draw(st.integers(1, 4), "shards"))]
    for batch in np.split(shuffled, cuts):
        draw.draw(st.sampled_from(shards), "shard").observe(batch)
    while len(shards) > 1:
        # As those do that come from another process.
        taken = observer(method)
        taken.restore(shards.pop(draw.draw(st.integers(0, len(shards) - 1), "merged")).state())
        shards[draw.draw(st.integers(0, len(shards) - 1), "into")].merge(taken)
    return shards[0]


@every_method
@settings(deadline=None, max_examples=60)
@given(values=VALUES, one_sided=st.booleans(), draw=st.data())
def test_however_values_are_shared_out_the_range_is_that_of_all(
    method: str, values: Array, one_sided: bool, draw: st.DataObject
) -> None:
    values = np.abs(values) if one_sided else values
    # Two ranges are equal although one begins at 0 and the other at -0, but are not written as the same text.
    assert repr(shared_out(method, values, draw).range()) == repr(range_of(method, values))


@every_method
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 99), draw=st.data())
def test_many_values_shared_out_have_the_range_of_all(method: str, seed: int, draw: st.DataObject) -> None:
    values = np.random.default_rng(seed).standard_cauchy(2000).astype(np.float32)
    first, second, third = (observer(method) for _ in range(3))
    for shard, part in zip((first, second, third), np.split(values, sorted(draw.draw(TWO_CUTS)))):
        shard.observe(part)
    second.merge(third)
    first.merge(second)
    assert first.range() == range_of(method, values)


@every_method
def test_what_is_merged_stays_as_it_was(method: str) -> None:
    one, other, both = np.array([-1.0, 4.0], np.float32), np.array([-7.0, 2.0], np.float32), observer(method)
    shard = observer(method)
    both.observe(one)
    shard.observe(other)
    before = repr(shard.range())
    both.merge(shard)
    both.observe(100 * one)
    assert repr(shard.range()) == before


@every_method
def test_who_has_seen_nothing_adds_nothing(method: str) -> None:
    values = np.array([-1.0, 4.0], np.float32)
    full, empty = observer(method), observer(method)
    full.observe(values)
    full.merge(empty)
    assert repr(full.range()) == repr(range_of(method, values))
    with pytest.raises(DataError, match="no values"):
        empty.range()
    empty.merge(full)
    assert repr(empty.range()) == repr(range_of(method, values))


@every_method
@pytest.mark.parametrize("values", [[-0.0, 1.0], [-1.0, -0.0], [-0.0]])
def test_no_range_ends_at_a_zero_with_a_sign(method: str, values: list[float]) -> None:
    assert "-0.0" not in repr(range_of(method, np.array(values, np.float32)))


@every_method
@pytest.mark.parametrize("scale", [1e-30, 1e-7, 1e6])
def test_small_and_large_values_keep_their_scale(method: str, scale: float) -> None:
    values = np.random.default_rng(0).laplace(size=5000).astype(np.float32)
    factor = 2.0 ** round(math.log2(scale))
    plain, scaled = range_of(method, values), range_of(method, values * np.float32(factor))
    assert scaled == Range(plain.low * factor, plain.high * factor)


@every_method
def test_never_negative_gives_a_range_from_zero_or_above(method: str) -> None:
    bounds = range_of(method, np.random.default_rng(0).exponential(size=3000))
    assert bounds.low >= 0 and bounds.high > 0.5


@every_method
def test_range_stays_inside_the_values(method: str) -> None:
    values = np.concatenate([np.random.default_rng(0).uniform(0, 9, 3000), [-0.25]]).astype(np.float32)
    bounds = range_of(method, values)
    assert bounds.low >= -0.25 and 0 < bounds.high <= values.max()


@every_method
def test_all_negative_values(method: str) -> None:
    values = -np.random.default_rng(0).uniform(1, 2, 3000)
    bounds = range_of(method, values)
    assert -2 <= bounds.low < -1.5
    assert bounds.high == (np.float32(values.max()) if method == "minmax" else 0.0)


@every_method
def test_all_zero_gives_the_zero_range(method: str) -> None:
    with np.errstate(all="raise"):
        assert range_of(method, np.zeros((2, 3)), np.zeros(0)) == Range(0.0, 0.0)


@every_method
@pytest.mark.parametrize("value", [3.0, -3.0, 1e-45, -3e38])
def test_one_value_is_inside(method: str, value: float) -> None:
    value = float(np.float32(value))
    bounds = range_of(method, np.array([value], np.float32))
    assert bounds.largest <= abs(value)
    assert bounds.largest == pytest.approx(abs(value), rel=2e-2)


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
