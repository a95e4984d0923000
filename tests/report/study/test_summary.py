from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.benchmark.results.results import Cell, LeftOut, Published, Results
from quantkit.errors import UserError
from quantkit.report.study.summary import Study, summarize
from tests.report.synthetic import CONTESTANTS, INT8, NATIVE, failed, results


def only(given: Results, price: float | None = None) -> Study:
    (study,) = summarize([given], [price])
    return study


def cell_of(given: Results, network: str, batch: int, contestant: str) -> Cell:
    return next(
        cell for cell in given.cells if (cell.network, cell.batch, cell.contestant.name) == (network, batch, contestant)
    )


def items_per_second(cell: Cell) -> float:
    """Counted request by request, in plain Python."""
    done = seconds = 0.0
    for turn in cell.rounds:
        low = max(ticks.starts[0] for ticks in turn.instances)
        high = min(ticks.ends[-1] for ticks in turn.instances)
        for ticks in turn.instances:
            for start, end in zip(ticks.starts, ticks.ends):
                done += max(0, min(end, high) - max(start, low)) / (end - start)
        seconds += (high - low) / 1e9
    return cell.batch * done / seconds


def test_rows_hold_what_the_ticks_say() -> None:
    given = results()
    study = only(given, 3.6)
    assert len(study.rows) == 2 * len(CONTESTANTS)
    for row in study.rows:
        cell = cell_of(given, *row.key)
        base = cell_of(given, row.network, row.batch, "native")
        times = np.array([e - s for t in cell.rounds for i in t.instances for s, e in zip(i.starts, i.ends)]) / 1e6
        assert row.throughput == pytest.approx(items_per_second(cell))
        assert row.percentiles == pytest.approx(np.percentile(times, [50, 90, 99]))
        assert row.requests == times.size
        assert row.cost == pytest.approx(1e6 * 3.6 / 3600 / row.throughput)
        if row.contestant == "native":
            assert row.speedups == {}
            assert row.speedup is None
        else:
            expected = items_per_second(cell) / items_per_second(base)
            assert row.speedups["throughput"].value == pytest.approx(expected)
            assert row.speedups["throughput"].low < expected < row.speedups["throughput"].high


def test_latency_is_the_mean_over_instances() -> None:
    given = results()
    study = only(given)
    row = next(row for row in study.rows if row.contestant == "INT8 pinned" and row.batch == 1)
    cell = cell_of(given, *row.key)
    means = [
        np.mean(
            [
                end - start
                for turn in cell.rounds
                for start, end in zip(turn.instances[i].starts, turn.instances[i].ends)
            ]
        )
        for i in range(2)
    ]
    assert row.mean_latency == pytest.approx(np.mean(means) / 1e6)
    assert row.instances == 2


def test_rows_stand_in_the_order_of_the_run() -> None:
    given = results(("b", "a"), (16, 1))
    shuffled = Results(given.run, tuple(reversed(given.cells)))
    keys = [row.key for row in only(shuffled).rows]
    assert keys == [(n, b, c.name) for n in ("b", "a") for b in (1, 16) for c in CONTESTANTS]


def test_a_failed_baseline_leaves_no_speedup() -> None:
    given = results(contestants=(NATIVE, INT8))
    cells = [
        replace(cell, failure=failed("", 1, NATIVE, "gone").failure) if cell.contestant == NATIVE else cell
        for cell in given.cells
    ]
    study = only(Results(given.run, tuple(cells)))
    assert [row.contestant for row in study.rows] == ["INT8", "INT8"]
    assert all(row.speedups == {} for row in study.rows)
    assert len(study.failed) == 2


def published(contestant: str, metric: str, value: float, scenario: str = "throughput") -> Published:
    return Published("resnet50_v1", 1, contestant, scenario, metric, value)


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ((published("INT8", "speedup", 20.0),), {"throughput": 20.0}),
        ((published("INT8", "speedup", 9.0, "latency"),), {"latency": 9.0}),
        ((published("INT8", "throughput", 300.0),), {}),
        ((published("INT8", "throughput", 300.0), published("native", "throughput", 20.0)), {"throughput": 15.0}),
        (
            (published("INT8", "latency", 4.0, "latency"), published("native", "latency", 20.0, "latency")),
            {"latency": 5.0},
        ),
        ((published("INT8", "latency", 4.0, "latency"), published("native", "latency", 20.0)), {}),
    ],
)
def test_published_figures_become_speedups_only_with_a_published_baseline(
    figures: tuple[Published, ...], expected: dict[str, float]
) -> None:
    study = only(results(published=figures))
    assert {row.key: row.published for row in study.rows if row.published} == (
        {("resnet50_v1", 1, "INT8"): expected} if expected else {}
    )


def test_what_was_measured_after_all_is_not_left_out() -> None:
    given = results(
        left_out=(LeftOut("resnet50_v1", 1, "INT8", "no time"), LeftOut("resnet50_v1", 64, "INT8", "no time"))
    )
    assert [each.batch for each in only(given).left_out] == [64]


def test_cells_of_another_run_are_refused() -> None:
    given = results()
    with pytest.raises(UserError, match="does not list"):
        summarize([Results(replace(given.run, networks=()), given.cells)])


@pytest.mark.parametrize("price", [0.0, -1.0, float("nan"), float("inf")])
def test_prices_are_positive_numbers(price: float) -> None:
    with pytest.raises(UserError, match="price"):
        summarize([results(batches=(1,))], [price])


def test_a_host_has_one_price() -> None:
    runs = [results(batches=(1,), name=name) for name in ("first", "second")]
    with pytest.raises(UserError, match=r"first and second ran on one host, 0123456789abcdef .*per hour, 1.5 and 2;"):
        summarize(runs, [1.5, 2.0])
    for prices in ([1.5, 1.5], [1.5, None]):
        assert [study.price for study in summarize(runs, prices)] == prices


def test_there_is_a_price_for_each_run_or_for_none() -> None:
    with pytest.raises(UserError, match="2 prices for 1 runs"):
        summarize([results(batches=(1,))], [1.0, 2.0])


def test_a_figure_for_the_nearest_batch_size_stands_beside_that() -> None:
    ours, theirs = published("INT8", "throughput", 300.0), published("native", "throughput", 20.0)
    figures = tuple(replace(each, batch=224, nearest=True) for each in (ours, theirs))
    study = only(results(published=figures))
    largest = max(row.batch for row in study.rows)
    assert {row.key: row.published for row in study.rows if row.published} == {
        (study.rows[0].network, largest, "INT8"): {"throughput": 15.0}
    }
    assert {each.own_batch for each in study.run.published} == {224}
    exact = only(results(published=tuple(replace(each, nearest=False) for each in figures)))
    assert not any(row.published for row in exact.rows)
