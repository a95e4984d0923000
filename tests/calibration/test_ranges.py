"""Ranges refuse bounds that describe no interval."""

from __future__ import annotations

import math

import pytest

from quantkit.calibration.ranges import Range
from quantkit.errors import UserError


@pytest.mark.parametrize(
    ("low", "high"), [(1.0, 0.0), (math.nan, 1.0), (0.0, math.nan), (-math.inf, 0.0), (0.0, math.inf)]
)
def test_refuses(low: float, high: float) -> None:
    with pytest.raises(UserError):
        Range(low, high)


def test_largest_is_the_larger_magnitude() -> None:
    assert Range(-3.0, 2.0).largest == 3.0
    assert Range(-1.0, 2.0).largest == 2.0
    assert Range(0.0, 0.0).largest == 0.0
