from __future__ import annotations

from dataclasses import replace
from typing import Optional

import pytest

from quantkit.benchmark.results.results import LeftOut, Network, Results, Server, ServerTrial
from quantkit.errors import UserError
from quantkit.report.study.compare import Absent, compare_results
from quantkit.report.study.summary import summarize
from tests.report.synthetic import HOST, INT8, NATIVE, failed, results, run, served


def made(int8: float, seed: int = 0, scenario: str = "throughput") -> Results:
    return results(
        batches=(1, 8), contestants=(NATIVE, INT8), speed={"native": 1.0, "INT8": int8}, seed=seed, scenario=scenario
    )


OLD = made(10.0)


def test_ratios_are_new_over_old() -> None:
    new = made(8.0, seed=1)
    comparison = compare_results(OLD, new)
    before = {row.key: row.throughput for row in summarize([OLD])[0].rows}
    after = {row.key: row.throughput for row in summarize([new])[0].rows}
    assert [(cell.network, cell.batch, cell.contestant) for cell in comparison.cells] == list(before)
    for cell in comparison.cells:
        key = cell.network, cell.batch, cell.contestant
        assert cell.ratio.value == pytest.approx(after[key] / before[key])
    verdicts = {(cell.batch, cell.contestant): cell.ratio.verdict for cell in comparison.cells}
    assert verdicts[1, "INT8"] == "slower"
    assert comparison.regressions == 0


@pytest.mark.parametrize(("limit", "regressed"), [(None, []), (0.7, []), (0.95, ["INT8", "INT8"])])
def test_only_sure_losses_below_the_limit_count(limit: Optional[float], regressed: list[str]) -> None:
    comparison = compare_results(OLD, made(8.0, seed=1), limit)
    assert [cell.contestant for cell in comparison.slower] == regressed


def test_a_loss_that_chance_explains_does_not_count() -> None:
    comparison = compare_results(OLD, made(8.0, seed=1))
    ratio = comparison.cells[1].ratio
    between = (ratio.value + ratio.high) / 2
    assert ratio.value < between < ratio.high
    cell = compare_results(OLD, made(8.0, seed=1), between).cells[1]
    assert not cell.regressed


def test_each_cell_is_compared_in_its_own_metric() -> None:
    old, new = made(10.0, scenario="latency"), made(8.0, 1, "latency")
    assert {cell.metric for cell in compare_results(old, new).cells} == {"latency"}
    assert {cell.metric for cell in compare_results(old, new, metric="throughput").cells} == {"throughput"}
    assert compare_results(old, new).cells[1].ratio.value == pytest.approx(0.8, rel=0.05)


def test_cells_of_one_side_are_named_with_the_reason() -> None:
    lost = failed("resnet50_v1", 8, INT8, "killed")
    cells = [cell for cell in OLD.cells if (cell.batch, cell.contestant) not in ((8, INT8), (1, NATIVE))]
    left_out = (LeftOut("resnet50_v1", 1, "native", "no time"),)
    comparison = compare_results(OLD, Results(replace(OLD.run, left_out=left_out), (*cells, lost)))
    assert comparison.only_old == (
        Absent("resnet50_v1", 1, "native", "was left out: no time"),
        Absent("resnet50_v1", 8, "INT8", "failed: killed", failed=True),
    )
    part = Results(OLD.run, OLD.cells[1:])
    back = compare_results(part, OLD)
    assert back.only_new == (Absent("resnet50_v1", 1, "native", "is not part of the run"),)
    stopped = compare_results(OLD, Results(replace(OLD.run, state="interrupted"), part.cells))
    assert stopped.only_old[0].why == "was not measured, the run is not complete (interrupted)"


def test_what_new_lost_is_a_regression_and_what_it_has_not_tried_may_be_allowed() -> None:
    lost = failed("resnet50_v1", 8, INT8, "killed")
    cells = [cell for cell in OLD.cells if (cell.batch, cell.contestant) not in ((8, INT8), (1, NATIVE))]
    new = Results(OLD.run, (*cells, lost))

    def counted(limit: Optional[float], allow_missing: bool = False) -> list[int]:
        return [cell.batch for cell in compare_results(OLD, new, limit, allow_missing=allow_missing).lost]

    assert counted(None) == []
    assert counted(0.5) == [1, 8]
    assert counted(0.5, allow_missing=True) == [8]
    assert compare_results(OLD, new, 0.5).regressions == 2
    assert compare_results(new, OLD, 0.5).regressions == 0


def test_nothing_in_common_is_a_regression_where_all_has_failed() -> None:
    broken = Results(OLD.run, tuple(failed(cell.network, cell.batch, cell.contestant, "killed") for cell in OLD.cells))
    for allow_missing in (False, True):
        comparison = compare_results(OLD, broken, 0.95, allow_missing=allow_missing)
        assert (comparison.cells, comparison.regressions) == ((), len(OLD.cells))
    for old, new, limit in ((OLD, broken, None), (broken, OLD, 0.95), (broken, broken, 0.95)):
        with pytest.raises(UserError, match="no measured cell in common"):
            compare_results(old, new, limit)
    with pytest.raises(UserError, match="no measured cell in common"):
        compare_results(OLD, Results(OLD.run, ()), 0.95, allow_missing=True)


@pytest.mark.parametrize("side", ["OLD", "NEW"])
def test_what_others_disturbed_gets_no_verdict(side: str) -> None:
    def noisy(given: Results) -> Results:
        cell = given.cells[1]
        turns = tuple(replace(turn, stolen=0.25) for turn in cell.rounds)
        return Results(given.run, (given.cells[0], replace(cell, rounds=turns), *given.cells[2:]))

    slow = made(8.0, seed=1)
    old, new = (noisy(OLD), slow) if side == "OLD" else (OLD, noisy(slow))
    comparison = compare_results(old, new, 0.95)
    assert [cell.verdict for cell in comparison.cells if cell.contestant == "INT8"] == ["unsure: disturbed", "slower"]
    assert comparison.cells[1].disturbed == (f"in {side}, the hypervisor took 0.25 cores of processor time meanwhile",)
    assert comparison.slower == (comparison.cells[3],)


def searched(rate: float, *broken: float, held: float = 1.0, bound: float = 15.0) -> Results:
    """A search that found ``rate``; at ``broken`` the p99 left the bound, at ``held`` it did not."""
    given = served("net", INT8, rate, bound)
    trial = ServerTrial(rate, 500, 4.0, 6.0, bound - 1, True, ())
    trials = (replace(trial, rate=held), *(replace(trial, rate=each, p99=bound + 1) for each in broken), trial)
    cell = replace(given, server=Server(bound, rate, trials))
    return Results(run([Network("net", "trained", 1)], (INT8,), scenario="server"), (cell,))


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (searched(100.0, 104.0), searched(104.9, 110.0), "not distinguishable"),
        (searched(100.0, 104.0), searched(105.1, 110.0), "faster"),
        (searched(105.1, 110.0), searched(100.0, 104.0), "slower"),
        # A step back leaves more open than the search's precision: here all from 90 to 100.
        (searched(90.0, 100.0, 150.0), searched(97.0, 101.0), "not distinguishable"),
        (searched(90.0, 100.0, 150.0), searched(101.0, 103.0), "faster"),
        (searched(90.0, 100.0, held=95.0), searched(97.0, 101.0), "not distinguishable"),
        (searched(100.0), searched(104.0), "not distinguishable"),
        (searched(100.0), searched(106.0), "faster"),
        (searched(100.0, 104.0), searched(0.0, 400.0), "slower"),
        (searched(0.0, 400.0), searched(100.0, 104.0), "faster"),
        (searched(0.0, 400.0), searched(0.0, 200.0), "not distinguishable"),
    ],
)
def test_rates_differ_where_the_searches_can_tell(old: Results, new: Results, verdict: str) -> None:
    (cell,) = compare_results(old, new, 0.95, "latency").cells
    assert (cell.metric, cell.interval, cell.verdict) == ("rate", None, verdict)
    rates = [each.cells[0].server.rate for each in (old, new) if each.cells[0].server]
    if rates[0]:
        assert cell.ratio.value == pytest.approx(rates[1] / rates[0])
    assert cell.regressed == (rates[1] == 0 < rates[0])


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), float("inf")])
def test_limits_are_positive_numbers(limit: float) -> None:
    with pytest.raises(UserError, match="above zero"):
        compare_results(OLD, OLD, limit)


def test_what_cannot_be_compared_is_refused() -> None:
    elsewhere = Results(replace(OLD.run, host={**HOST, "id": "ffff"}), OLD.cells)
    with pytest.raises(UserError, match="different hosts"):
        compare_results(OLD, elsewhere)
    other = {"symbol": "a" * 64, "params": "c" * 64}
    retrained = Results(OLD.run, (*OLD.cells[:-1], replace(OLD.cells[-1], checkpoint=other)))
    with pytest.raises(UserError, match=r"batch size 8, INT8.*params has SHA-256 bbbbbbbbbbbb.*cccccccccccc"):
        compare_results(OLD, retrained)
    with pytest.raises(UserError, match="no measured cell in common"):
        compare_results(OLD, Results(OLD.run, ()))
    with pytest.raises(UserError, match=r"within 15.0 ms in one run and within 20.0 ms in the other"):
        compare_results(searched(100.0), searched(100.0, bound=20.0))
    changed = Results(OLD.run, tuple(replace(cell, scenario="latency") for cell in OLD.cells))
    with pytest.raises(UserError, match="measured for throughput"):
        compare_results(OLD, changed)
