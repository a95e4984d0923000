from __future__ import annotations

from dataclasses import replace
from typing import Optional

import pytest

from quantkit.benchmark.results import LeftOut, Results
from quantkit.errors import UserError
from quantkit.report.compare import compare_results
from quantkit.report.summary import summarize
from tests.report.synthetic import HOST, INT8, NATIVE, failed, results


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
    assert comparison.regressions == ()


@pytest.mark.parametrize(("limit", "regressed"), [(None, []), (0.7, []), (0.95, ["INT8", "INT8"])])
def test_only_sure_losses_below_the_limit_count(limit: Optional[float], regressed: list[str]) -> None:
    comparison = compare_results(OLD, made(8.0, seed=1), limit)
    assert [cell.contestant for cell in comparison.regressions] == regressed


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
        (("resnet50_v1", 1, "native"), "left out: no time"),
        (("resnet50_v1", 8, "INT8"), "failed: killed"),
    )
    back = compare_results(Results(OLD.run, OLD.cells[1:]), OLD)
    assert back.only_new == ((("resnet50_v1", 1, "native"), "not part of the run"),)


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
    changed = Results(OLD.run, tuple(replace(cell, scenario="latency") for cell in OLD.cells))
    with pytest.raises(UserError, match="measured for throughput"):
        compare_results(OLD, changed)
