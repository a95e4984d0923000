from __future__ import annotations

from typing import Optional

import pytest

from quantkit.errors import UserError
from quantkit.quantization.goal import Goal

NAN = float("nan")


@pytest.mark.parametrize(
    ("drop", "speedup", "message"),
    [
        (None, None, "^a goal needs a max_drop, a min_speedup or both; give one$"),
        (-0.1, None, "^a drop of at most -0.1 was asked for; give 0 to 100, such as 0.3$"),
        (100.5, None, "at most 100.5 was"),
        (NAN, 2.0, "at most nan was"),
        (0.3, 0, "^a speed-up of 0 was asked for; give a number above 0, such as 2.5$"),
        (None, -1, "speed-up of -1"),
        (None, NAN, "speed-up of nan"),
        (None, float("inf"), "speed-up of inf"),
    ],
)
def test_a_goal_must_be_one(drop: Optional[float], speedup: Optional[float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Goal(drop, speedup)


def test_a_goal_can_be_anything_else() -> None:
    assert not Goal(max_drop=0).accurate(0.01)
    assert Goal(max_drop=100).accurate(100.0)
    assert not Goal(min_speedup=0.5).fast(0.4)
    assert Goal(min_speedup=0.5).fast(0.6)


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
