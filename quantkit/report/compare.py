"""The comparison of two runs of the same cells, cell by cell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional

from quantkit.benchmark.results import Cell, Results
from quantkit.benchmark.statistics import Metric, Ratio, ratio
from quantkit.errors import UserError
from quantkit.report.summary import Key, check_same_host, key_of


@dataclass(frozen=True)
class Compared:
    """One cell of both runs; ``ratio`` is new over old, above 1 is better. ``regressed`` holds it against the limit."""

    network: str
    batch: int
    contestant: str
    metric: Metric
    ratio: Ratio
    regressed: bool


@dataclass(frozen=True)
class Comparison:
    """All cells that both runs measured, and those that only one did, with the reason why the other did not."""

    cells: tuple[Compared, ...]
    only_old: tuple[tuple[Key, str], ...]
    only_new: tuple[tuple[Key, str], ...]

    @property
    def regressions(self) -> tuple[Compared, ...]:
        """The cells that are slower than allowed."""
        return tuple(cell for cell in self.cells if cell.regressed)


def compare_results(
    old: Results, new: Results, fail_below: Optional[float] = None, metric: Optional[Metric] = None
) -> Comparison:
    """Compare two runs cell by cell.

    Args:
        old: the run that is the measure.
        new: the run to judge.
        fail_below: a cell has regressed where its ratio and its interval's upper end are below this.
        metric: what to compare; None for what each cell was measured for.

    Raises:
        UserError: the hosts or the weights differ, no cell was measured in both, or the limit is no number above 0.
    """
    if fail_below is not None and not (math.isfinite(fail_below) and fail_below > 0):
        raise UserError(f"the ratio to fail below is a number above zero, such as 0.95, not {fail_below}")
    check_same_host(old.run, new.run)
    before, after = _timed(old), _timed(new)
    common = [key for key in before if key in after]
    if not common:
        raise UserError(
            f"{old.run.name} and {new.run.name} have no measured cell in common (network, batch size and contestant)"
        )
    for key in common:
        _check_comparable(before[key], after[key])
    return Comparison(
        tuple(_compared(before[key], after[key], fail_below, metric) for key in common),
        tuple((key, _why(new, key)) for key in before if key not in after),
        tuple((key, _why(old, key)) for key in after if key not in before),
    )


def _timed(results: Results) -> dict[Key, Cell]:
    networks = [network.name for network in results.run.networks]
    contestants = [contestant.name for contestant in results.run.contestants]

    def place(key: Key) -> tuple[int, int, int]:
        network, batch, contestant = key
        found = networks.index(network) if network in networks else len(networks)
        return found, batch, contestants.index(contestant) if contestant in contestants else len(contestants)

    cells = {key_of(cell): cell for cell in results.cells if cell.rounds and cell.failure is None}
    return {key: cells[key] for key in sorted(cells, key=place)}


def _check_comparable(old: Cell, new: Cell) -> None:
    network, batch, contestant = key_of(old)
    where = f"{network}, batch size {batch}, {contestant}"
    if old.scenario != new.scenario:
        raise UserError(f"{where}: measured for {old.scenario} in one run and for {new.scenario} in the other")
    for name in sorted({*old.checkpoint, *new.checkpoint}):
        one, other = old.checkpoint.get(name), new.checkpoint.get(name)
        if one != other:
            raise UserError(
                f"{where}: the two runs did not measure the same network, its {name} has SHA-256 {str(one)[:12]} in "
                f"one and {str(other)[:12]} in the other; measure the same checkpoint"
            )


def _compared(old: Cell, new: Cell, fail_below: Optional[float], metric: Optional[Metric]) -> Compared:
    chosen: Metric = metric or ("latency" if old.scenario == "latency" else "throughput")
    value = ratio(new, old, chosen, paired=False)
    regressed = fail_below is not None and value.value < fail_below and value.high < fail_below
    return Compared(*key_of(old), chosen, value, regressed)


def _why(results: Results, key: Key) -> str:
    """Why a run has no timings of a cell."""
    for cell in results.cells:
        if key_of(cell) == key:
            return f"failed: {cell.failure.message}" if cell.failure else "not timed"
    for each in results.run.left_out:
        if (each.network, each.batch, each.contestant) == key:
            return f"left out: {each.reason}"
    return "not part of the run"
