"""Ranges refuse bounds that describe no interval."""

from __future__ import annotations

import math

import pytest

from quantkit.calibration.ranges import Range
from quantkit.errors import UserError


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (1.0, 0.0, r"^range \[1.0, 0.0\] is empty"),
        (math.nan, 1.0, r"^range \[nan, 1.0\] is not finite; calibrate again$"),
        (0.0, math.nan, "not finite"),
        (-math.inf, 0.0, "not finite"),
        (0.0, math.inf, "not finite"),
    ],
)
def test_refuses(low: float, high: float, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Range(low, high)


def test_largest_is_the_larger_magnitude() -> None:
    assert Range(-3.0, 2.0).largest == 3.0
    assert Range(-1.0, 2.0).largest == 2.0
    assert Range(0.0, 0.0).largest == 0.0
