"""What a search is for."""

from __future__ import annotations

from typing import Any

import pytest

from quantkit.bundle import Bundle
from quantkit.deployment.tuning import candidates
from quantkit.deployment.tuning.contestant import Contestant
from quantkit.deployment.tuning.goal import TuningGoal
from quantkit.deployment.tuning.point import Load, Point
from quantkit.errors import UserError


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"measure": "speed"}, "choose throughput or latency"),
        ({"p99": 0}, "p99 is 0; give a number above zero"),
        ({"memory": float("inf")}, "memory is inf"),
        ({"p99": 5.0, "measure": "latency"}, "leave one of them out"),
        ({"rate": 5.0, "measure": "latency"}, "leave one of them out"),
        ({"rate": -1}, "rate is -1; give a number above zero"),
        ({"rate": 1e9}, "give at most 100000 images/s"),
    ],
)
def test_goals_that_cannot_be(values: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        TuningGoal(**values)


def test_latency_is_that_of_one_image_alone(bundle: Bundle) -> None:
    goal = TuningGoal("latency")
    assert [*candidates.loads(Contestant(bundle, "mxnet"), goal, 4)] == [(Load(1, 1),)]
    slow, fast = (Point(Load(1, 1), rate, p50, 9.0, 10) for rate, p50 in ((100.0, 8.0), (50.0, 7.0)))
    assert goal.best([slow, fast]) == fast
