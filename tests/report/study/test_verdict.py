from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from quantkit.benchmark.results.results import Contestant, LeftOut, Network, Results
from quantkit.benchmark.results.statistics import Ratio
from quantkit.report.study.summary import Study, summarize
from quantkit.report.study.verdict import by_rank, reservations, verdicts
from tests.report.synthetic import FUSED, INT8, NATIVE, REASONS, cell, failed, results, rounds, run, served


def study(given: Results) -> Study:
    return summarize([given])[0]


def measured(speed: Sequence[float], count: int = 6, **fields: Any) -> Results:
    """INT8 at the given speeds, one batch size each, against native at exactly 1."""
    random = np.random.default_rng(7)
    cells = []
    for place, value in enumerate(speed):
        batch = 2**place
        cells.append(cell("net", batch, NATIVE, rounds(random, 100, count=count)))
        cells.append(cell("net", batch, INT8, rounds(random, 100 / value, count=count)))
    return Results(run([Network("net", "trained", 1)], (NATIVE, INT8), range(len(speed)), **fields), tuple(cells))


def test_the_range_is_that_of_the_ratios() -> None:
    given = study(results(("a", "b"), (1, 4, 16), (NATIVE, INT8)))
    values = [row.speedup.value for row in given.rows if row.speedup]
    reach = f"{min(values):.1f} to {max(values):.1f}"
    where = "on 2 networks at batch sizes 1 to 16 (throughput)"
    assert verdicts(given) == (f"INT8 runs {reach} times as fast as native {where}.",)


def test_one_comparison_has_its_interval() -> None:
    given = study(measured([5.0]))
    ratio = next(row.speedup for row in given.rows if row.speedup)
    where = f"on net at batch size 1 (throughput, 95 % interval {ratio.low:.2f} to {ratio.high:.2f})"
    assert verdicts(given) == (f"INT8 runs {ratio.value:.2f} times as fast as native {where}.",)


def test_our_own_int8_leads_before_that_of_faster_others() -> None:
    theirs = replace(INT8, name="stock INT8", variant="stock-int8")
    speed = {"native": 1.0, "fused": 60.0, "INT8": 20.0, "stock INT8": 40.0}
    given = study(results(batches=(1,), contestants=(NATIVE, FUSED, theirs, INT8), speed=speed))
    assert by_rank(given) == ("INT8", "stock INT8", "fused")


def test_doubt_is_said() -> None:
    assert verdicts(study(measured([1.0])))[0].startswith(
        "INT8 is not distinguishable in speed from native on net at batch size 1"
    )
    both = verdicts(study(measured([1.0, 1.0])))[0]
    assert both.startswith(
        "INT8 is not distinguishable in speed from native in any of 2 comparisons on net at batch sizes 1 and 2"
    )
    mixed = verdicts(study(measured([1.0, 5.0, 0.5])))[0]
    assert mixed.endswith("; it is slower in 1 of 3 comparisons and it is not distinguishable in 1 of 3 comparisons.")


@pytest.mark.parametrize(
    ("single", "who"), [((NATIVE, INT8), "INT8 and native were"), ((NATIVE,), "native was"), ((INT8,), "INT8 was")]
)
def test_one_round_is_no_proof(single: Sequence[Contestant], who: str) -> None:
    given = measured([5.0])
    cells = tuple(replace(c, rounds=c.rounds[:1]) if c.contestant in single else c for c in given.cells)
    text = verdicts(study(Results(given.run, cells)))[0]
    assert text.endswith(f"(throughput), which proves nothing: {who} measured in a single round.")


def test_several_rounds_without_an_interval_are_not_called_one() -> None:
    given = study(measured([5.0]))
    unbounded = {"throughput": Ratio(5.0, 0.0, float("inf"))}
    rows = tuple(replace(row, speedups=unbounded) if row.speedups else row for row in given.rows)
    assert verdicts(replace(given, rows=rows))[0].endswith("which proves nothing: the ratio has no interval.")


def test_int8_comes_first() -> None:
    first = [text.split(" runs ")[0] for text in verdicts(study(results()))]
    assert first == ["INT8 pinned", "INT8", "fused", "MKL-DNN"]


def test_metrics_are_kept_apart() -> None:
    given = results(("a", "b"), (1,), (NATIVE, INT8))
    cells = [replace(each, scenario="latency") if each.network == "a" else each for each in given.cells]
    texts = verdicts(study(Results(given.run, tuple(cells))))
    assert ["on b at" in texts[0], "(throughput" in texts[0], "on a at" in texts[1], "(latency" in texts[1]] == [
        True
    ] * 4


def test_missing_cells_are_counted() -> None:
    given = measured([5.0, 5.0, 5.0])
    cells = (*given.cells[:4], failed("net", 4, INT8, "killed"))
    left_out = (LeftOut("net", 8, "INT8", "no time"),)
    found = study(Results(replace(given.run, left_out=left_out), cells))
    assert verdicts(found)[0].endswith(" 2 of 4 comparisons are missing.")
    assert reservations(found) == (
        "1 cell failed; the reasons are below.",
        "1 cell was left out; the reasons are below.",
    )


def test_without_a_baseline_there_is_no_speedup() -> None:
    given = measured([5.0, 5.0])
    found = study(Results(given.run, tuple(each for each in given.cells if each.contestant == INT8)))
    assert verdicts(found) == ("INT8 cannot be compared with native: nowhere do both have a result.",)
    alone = study(
        Results(replace(given.run, contestants=(NATIVE,)), tuple(c for c in given.cells if c.contestant == NATIVE))
    )
    assert verdicts(alone) == ("There is nothing to compare: no contestant but the baseline has a result.",)


def test_random_weights_and_unfinished_runs_are_said() -> None:
    given = measured([5.0])
    networks = (Network("net", "random", 1), Network("net2", "random", 1))
    assert reservations(study(Results(replace(given.run, networks=networks[:1]), given.cells))) == (
        "net has random weights: the speed is real, the accuracy is not.",
    )
    found = reservations(study(Results(replace(given.run, networks=networks, state="interrupted"), given.cells)))
    assert found == (
        "The run is not complete (its state: interrupted), so cells may be missing.",
        "net and net2 have random weights: the speed is real, the accuracy is not.",
    )


def test_served_rates_are_told() -> None:
    cells = (served("net", NATIVE, 0.0), served("net", INT8, 90.0))
    given = Results(run([Network("net", "trained", 1)], (NATIVE, INT8), scenario="server"), cells)
    assert verdicts(study(given)) == (
        "INT8 serves net at batch size 1 with a p99 within 15.0 ms at up to 90.0 requests per second.",
        "native serves net at batch size 1 with a p99 within 15.0 ms at none of the rates tried.",
    )


def test_a_served_rate_that_loadgen_doubts_is_told_so() -> None:
    cell = served("net", INT8, 90.0)
    assert cell.server is not None
    trials = [replace(trial, valid=False, why=REASONS) for trial in cell.server.trials]
    doubted = replace(cell, server=replace(cell.server, trials=trials))
    given = Results(run([Network("net", "trained", 1)], (NATIVE, INT8), scenario="server"), (doubted,))
    assert verdicts(study(given)) == (
        "INT8 serves net at batch size 1 with a p99 within 15.0 ms at up to 90.0 requests per second, in a run that "
        "LoadGen calls not valid: performance constraints and early stopping.",
    )
