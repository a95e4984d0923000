"""What instances have left out, put together."""

from __future__ import annotations

import numpy as np

from quantkit.data.left_out import LeftOut
from quantkit.training.communication import Alone
from quantkit.training.unused import Unused, unused_by_all
from tests.training.test_communication import of_instances

FIRST, SECOND, THIRD = (LeftOut(position, f"{position}.png", "cannot read é") for position in (2, 3, 10))


def test_one_instance_adds_to_what_was_left_out_before() -> None:
    before = Unused((SECOND,), (THIRD,))
    found = unused_by_all(Alone(), before, Unused((FIRST, SECOND), ()))
    assert found == Unused((FIRST, SECOND), (THIRD,))
    assert unused_by_all(Alone(), found, found) == found


def test_what_all_know_is_not_exchanged_again() -> None:
    exchanged: list[int] = []

    class Told(Alone):
        def all_reduce(self, values: np.ndarray) -> np.ndarray:
            exchanged.append(int(values.sum()))
            return values

    unused_by_all(Told(), Unused((FIRST,), (SECOND,)), Unused((FIRST,), (SECOND,)))
    assert sum(exchanged) == 0


def test_all_instances_know_what_each_has_left_out() -> None:
    own = [Unused((THIRD,), ()), Unused((FIRST, SECOND), (SECOND,)), Unused((), ())]
    told = of_instances(3, lambda one: unused_by_all(one, Unused((SECOND,), ()), own[one.rank]))
    assert told == [Unused((FIRST, SECOND, THIRD), (SECOND,))] * 3


def test_a_sample_that_several_instances_have_met_is_told_once() -> None:
    told = of_instances(2, lambda one: unused_by_all(one, Unused(), Unused((FIRST,), (THIRD,))))
    assert told == [Unused((FIRST,), (THIRD,))] * 2
