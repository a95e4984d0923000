"""Sums of two products in 16 bits, against the products themselves."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from quantkit.host.pair_sums import may_overflow, padded_to_pairs


def saturates(row: list[int]) -> bool:
    """Whether any inputs from 0 to 255 leave 16 bits; the extremes do first."""
    pairs = zip(row[::2], [*row[1::2], 0])
    inputs = list(product((0, 255), repeat=2))
    return any(not -(2**15) <= a * x + b * y < 2**15 for a, b in pairs for x, y in inputs)


@pytest.mark.parametrize("inputs", [1, 2, 5])
def test_rows_that_may_overflow(inputs: int) -> None:
    random = np.random.default_rng(0)
    rows = random.integers(-128, 128, (200, inputs)).astype(np.int8)
    wanted = [saturates(row) for row in rows.tolist()]
    assert [may_overflow(row[None]) for row in rows] == wanted
    assert may_overflow(rows) == any(wanted)
    assert any(wanted) == (inputs > 1)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_pair_that_fits(sign: int) -> None:
    for row, wanted in (([64, 64], False), ([127, 1], False), ([65, 64], True), ([0, 127, 127, 0], False)):
        assert may_overflow(sign * np.array([row], np.int8)) == wanted == saturates([sign * each for each in row])


def test_rows_of_odd_length_end_with_a_zero() -> None:
    rows = np.ones((2, 3), np.float32)
    assert padded_to_pairs(rows).tolist() == [[1, 1, 1, 0]] * 2
    assert padded_to_pairs(rows[:, :2]).tolist() == [[1, 1]] * 2
