"""The conditions of a run: what is refused before builds are made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quantkit.benchmark.measuring.measurement import Conditions, run_benchmark
from quantkit.errors import UserError


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"budget": 0}, "budget is 0; give a number above zero, or None"),
        ({"budget": "5"}, "budget is '5'; give a number above zero"),
        ({"budget": float("nan")}, "budget is nan; give"),
        ({"latency_bound": float("inf")}, "latency_bound is inf; give"),
        ({"openmp": "llvm"}, "openmp is 'llvm'; choose one of gnu, intel$"),
        ({"allocator": "mimalloc"}, "allocator is 'mimalloc'; choose one of system, jemalloc, tcmalloc$"),
    ],
)
def test_impossible_conditions_are_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        Conditions(**values)


def test_possible_conditions_are_kept() -> None:
    conditions = Conditions(budget=2, latency_bound=0.5, openmp="intel", allocator="jemalloc")
    assert (conditions.budget, conditions.latency_bound) == (2.0, 0.5)
    assert Conditions().budget is None


def test_a_run_is_of_a_suite_under_conditions(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="conditions is of type int; give a Conditions, such as"):
        run_benchmark("smoke", tmp_path, 3)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="there is no suite 'nothing'"):
        run_benchmark("nothing", tmp_path)
    card = tmp_path / "card.toml"
    card.write_text('title = "x"\n')
    with pytest.raises(UserError, match=r"card\.toml is not a benchmark suite"):
        run_benchmark(card, tmp_path)
    assert sorted(tmp_path.iterdir()) == [card]
