from __future__ import annotations

from dataclasses import replace

from quantkit.benchmark.results.cell_warnings import disturbances, warnings
from quantkit.benchmark.results.results import WarmUp
from tests.benchmark.cells import cell, closed_loop


def test_warnings_name_what_disturbs() -> None:
    calm = cell([[closed_loop([1.0] * 10)]] * 10)
    assert warnings(calm) == ()
    stolen = replace(calm, rounds=tuple(replace(turn, stolen=0.5) for turn in calm.rounds))
    busy = replace(calm, rounds=tuple(replace(turn, busy=0.5) for turn in calm.rounds))
    unsteady = replace(calm, warm_up=(WarmUp((1,) * 6, False), WarmUp((1,) * 6, True)))
    few = replace(calm, rounds=calm.rounds[:2])
    assert ["hypervisor" in text for text in warnings(stolen)] == [True]
    assert ["other processes" in text for text in warnings(busy)] == [True]
    assert ["1 of 2 instances" in text for text in warnings(unsteady)] == [True]
    assert ["20 requests in 2 rounds" in text for text in warnings(few)] == [True]
    assert warnings(replace(calm, warnings=("own",))) == ("own",)


def test_others_that_nobody_tells_of_are_a_warning_but_no_disturbance() -> None:
    calm = cell([[closed_loop([1.0] * 10)]] * 10)
    untold = [replace(turn, busy=None, stolen=None) for turn in calm.rounds]
    blind = replace(calm, rounds=tuple(untold))
    assert warnings(blind) == ("the system does not tell whether others used the same processors meanwhile",)
    assert disturbances(blind) == ()
    # What some rounds tell counts.
    busy = [replace(turn, busy=0.5) for turn in calm.rounds[:5]]
    assert ["other processes used 0.50" in text for text in warnings(replace(calm, rounds=(*untold[:5], *busy)))] == [
        True
    ]


def test_few_samples_are_nobodys_fault() -> None:
    few = cell([[closed_loop([1.0])]], warnings=("late",))
    assert len(warnings(few)) == 2
    assert disturbances(few) == ("late",)
    assert warnings(cell([])) == disturbances(cell([])) == ()


def test_ticks_that_miss_a_round_do_not_add_up() -> None:
    calm = cell([[closed_loop([1.0] * 10)]] * 10)
    coarse = replace(calm, rounds=tuple(replace(turn, busy=0.4 * (-1) ** i) for i, turn in enumerate(calm.rounds)))
    assert disturbances(coarse) == ()
