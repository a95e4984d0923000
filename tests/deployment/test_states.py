"""States that a caller hands on, checked before the network runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantkit.deployment.states import checked_states
from quantkit.errors import DataError
from quantkit.ir.handed_states import HandedState

WANTED = (HandedState("h", 1, (2, 4)), HandedState("c", 2, (2, 4)))


def given(**changes: Any) -> dict[str, Any]:
    return {"h": np.ones((3, 2, 4), np.float32), "c": np.full((3, 2, 4), 2.0, np.float32), **changes}


def test_sequences_begin_at_zero() -> None:
    states = checked_states(None, WANTED, 3)
    assert {name: (value.shape, value.dtype, value.any()) for name, value in states.items()} == dict.fromkeys(
        ("h", "c"), ((3, 2, 4), np.float32, np.False_)
    )


def test_states_are_passed_on_as_float32() -> None:
    states = checked_states(given(c=np.full((3, 2, 4), 2.0)), WANTED, 3)
    assert [value.dtype for value in states.values()] == [np.float32] * 2
    np.testing.assert_array_equal(states["c"], given()["c"])


@pytest.mark.parametrize(
    ("states", "complaint"),
    [
        ([np.ones((3, 2, 4))], "the states are a list; give what the step before returned"),
        ({"h": given()["h"]}, "the state 'c' is missing"),
        (given(x=1), "the network has no state 'x'; it has 'c', 'h'"),
        (given(h=np.ones((2, 2, 4))), r"'h' is float64 of shape \(2, 2, 4\), and needs float32 of shape \(3, 2, 4\)"),
        (given(h=np.ones((3, 2, 4), np.int64)), "'h' is int64"),
        (given(h="text"), "'h' is <U4 of shape"),
        (given(c=np.full((3, 2, 4), np.nan)), "'c' holds NaN or infinite values"),
        (given(c=np.full((3, 2, 4), 1e300)), "'c' holds NaN or infinite values"),
        (given(h=[[1.0], [1.0, 2.0]]), r"'h' forms no array .*; give float32 of shape \(3, 2, 4\)"),
    ],
)
def test_states_that_do_not_fit_are_refused(states: Any, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        checked_states(states, WANTED, 3)
