"""The table of contestants beside those that they were put against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from quantkit.benchmark.results.results import Network, Results
from quantkit.report.page.table import Table
from quantkit.report.pair_table import pair_table
from quantkit.report.study.summary import summarize
from quantkit.report.study.words import MARK
from tests.report.synthetic import FUSED, INT8, NATIVE, PINNED, results

# The other way round than the run has them.
AGAINST = replace(INT8, against=("INT8 pinned", "fused"))
CONTESTANTS = (NATIVE, FUSED, PINNED, AGAINST)


def measured(**changes: Any) -> Results:
    return results(**{"batches": (1,), "contestants": CONTESTANTS, **changes})


def table_of(given: Results) -> Table:
    table = pair_table(summarize([given])[0])
    assert table is not None
    return table


def test_a_row_has_what_was_compared_and_the_ratio() -> None:
    table = table_of(measured(batches=(16,)))
    facts = dict(zip(table.columns, table.rows[0]))
    ratio = facts.pop("times as fast")
    assert facts == {
        "contestant": "INT8", "against": "fused", "network": "resnet50_v1", "batch size": "16", "metric": "throughput",
    }  # fmt: skip
    assert ratio.startswith("2.") and "(" in ratio
    assert {table.columns[place] for place in table.numeric} == {"batch size", "times as fast"}


def test_the_table_follows_the_contestants() -> None:
    contestants = (replace(NATIVE, against=("INT8",)), *CONTESTANTS[1:])
    assert [row[:2] for row in table_of(measured(contestants=contestants)).rows] == [
        ("native", "INT8"), ("INT8", "fused"), ("INT8", "INT8 pinned"),
    ]  # fmt: skip


def test_without_pairs_there_is_no_table() -> None:
    assert pair_table(summarize([Results(measured().run, ())])[0]) is None


def test_equals_are_called_so() -> None:
    table = table_of(measured(speed={"native": 1.0, "fused": 7.0, "INT8": 7.0, "INT8 pinned": 12.0}))
    assert table.rows[0][-1].endswith("not distinguishable")


@pytest.mark.parametrize(
    ("doubtful", "marked"),
    [
        ("INT8", {"fused": True, "INT8 pinned": True}),
        ("fused", {"fused": True, "INT8 pinned": False}),
        ("native", {"fused": False, "INT8 pinned": False}),
    ],
)
def test_a_ratio_is_as_doubtful_as_either_of_both(doubtful: str, marked: Mapping[str, bool]) -> None:
    given = measured()
    cells = (
        replace(cell, warnings=("few samples: 3 requests in 1 rounds",) * (cell.contestant.name == doubtful))
        for cell in given.cells
    )
    table = table_of(Results(given.run, tuple(cells)))
    assert {row[1]: MARK in row[-1] for row in table.rows} == marked


def test_random_weights_of_the_tables_networks_are_noted() -> None:
    given = measured(networks=("alexnet", "googlenet"))
    networks = tuple(Network(name, "random", 4_000_000_000) for name in ("alexnet", "googlenet"))
    cells = tuple(cell for cell in given.cells if (cell.network, cell.contestant.name) != ("googlenet", "INT8"))
    table = table_of(Results(replace(given.run, networks=networks), cells))
    assert table.note.startswith("Times as fast as what it is put against")
    assert table.note.endswith("alexnet has random weights.")
