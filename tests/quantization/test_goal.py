from __future__ import annotations

from typing import Optional

import pytest

from quantkit.errors import UserError
from quantkit.quantization.goal import Goal

NAN = float("nan")


@pytest.mark.parametrize(
    ("drop", "speedup"), [(None, None), (-0.1, None), (101, None), (NAN, None), (None, 0), (None, -1), (None, NAN)]
)
def test_a_goal_must_be_one(drop: Optional[float], speedup: Optional[float]) -> None:
    with pytest.raises(UserError):
        Goal(drop, speedup)


def test_limits_are_part_of_the_goal() -> None:
    goal = Goal(max_drop=0.3, min_speedup=2.0)
    assert goal.accurate(100 * 3 / 1000)
    assert goal.accurate(-1.0)
    assert not goal.accurate(0.31)
    assert goal.fast(2.0)
    assert not goal.fast(1.999)


def test_what_is_not_asked_for_is_never_missed() -> None:
    assert Goal(max_drop=0.0).fast(0.1)
    assert Goal(min_speedup=2.0).accurate(99.0)
