"""The comparison of two runs of the same cells, cell by cell."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, Optional

from quantkit.benchmark.measuring.server import SEARCH_PRECISION
from quantkit.benchmark.results.cell_warnings import disturbances, warnings
from quantkit.benchmark.results.results import Cell, Results, Server
from quantkit.benchmark.results.statistics import Metric, Ratio, ratio
from quantkit.errors import UserError
from quantkit.report.study.summary import Key, check_same_host, key_of
from quantkit.report.study.words import bounded, number


@dataclass(frozen=True)
class Compared:
    """One cell of both runs; ``ratio`` is new over old, above 1 is better.

    ``metric`` is ``rate`` in the server scenario; the ratio's ends are then the bounds of the two searches.
    ``disturbed`` lists disturbances of either cell by other processes, ``warnings`` all its warnings.
    ``regressed`` is whether the ratio is below the limit.
    """

    network: str
    batch: int
    contestant: str
    metric: Literal[Metric, "rate"]
    ratio: Ratio
    disturbed: tuple[str, ...]
    warnings: tuple[str, ...]
    regressed: bool

    @property
    def interval(self) -> Optional[tuple[float, float]]:
        """The ratio's 95 % interval; None for rates, and if a run has too few rounds for one."""
        return (self.ratio.low, self.ratio.high) if self.metric != "rate" and bounded(self.ratio) else None

    @property
    def verdict(self) -> str:
        """``faster``, ``slower``, ``not distinguishable`` or, if others may be the cause, ``unsure: disturbed``."""
        return "unsure: disturbed" if self.disturbed else self.ratio.verdict


@dataclass(frozen=True)
class Absent:
    """A cell that only one run has measured, and ``why`` the other has not: it ``failed`` there, or is missing.

    ``regressed`` is whether it counts as a regression.
    """

    network: str
    batch: int
    contestant: str
    why: str
    failed: bool = False
    regressed: bool = False


@dataclass(frozen=True)
class Comparison:
    """All cells that both runs measured, and those that only one did."""

    cells: tuple[Compared, ...]
    only_old: tuple[Absent, ...]
    only_new: tuple[Absent, ...]

    @property
    def slower(self) -> tuple[Compared, ...]:
        """The cells that are slower than allowed."""
        return tuple(cell for cell in self.cells if cell.regressed)

    @property
    def lost(self) -> tuple[Absent, ...]:
        """The cells that count as regressions because NEW has no result for them."""
        return tuple(cell for cell in self.only_old if cell.regressed)

    @property
    def regressions(self) -> int:
        """The number of cells that are slower than allowed or lost."""
        return len(self.slower) + len(self.lost)


def compare_results(
    old: Results,
    new: Results,
    fail_below: Optional[float] = None,
    metric: Optional[Metric] = None,
    allow_missing: bool = False,
) -> Comparison:
    """Compare two runs cell by cell.

    Args:
        old: the run to compare with.
        new: the run to judge.
        fail_below: a cell has regressed if its ratio and its interval's upper end are below this and no other process
            disturbed it, or if only ``old`` has measured it; None: nothing is a regression.
        metric: the metric to compare; None for that of each cell. Cells of the server scenario are
            always compared by their rates.
        allow_missing: a cell that ``new`` has not tried is not a regression.

    Raises:
        UserError: the hosts, the weights or the latency bounds differ, there is nothing to compare, or the limit is
            not a number above 0.
    """
    if fail_below is not None and not (math.isfinite(fail_below) and fail_below > 0):
        raise UserError(f"the ratio to fail below is a number above zero, such as 0.95, not {fail_below}")
    check_same_host(old.run, new.run)
    before, after = _measured(old), _measured(new)
    common = [key for key in before if key in after]
    for key in common:
        _check_comparable(before[key], after[key])
    lost = [_absent(key, new) for key in before if key not in after]
    comparison = Comparison(
        tuple(_compared(before[key], after[key], fail_below, metric) for key in common),
        tuple(_counted(cell, fail_below, allow_missing) for cell in lost),
        tuple(_absent(key, old) for key in after if key not in before),
    )
    if not comparison.cells and not comparison.lost:
        raise UserError(
            f"{old.run.name} and {new.run.name} have no measured cell in common (network, batch size and contestant)"
        )
    return comparison


def _measured(results: Results) -> dict[Key, Cell]:
    networks = [network.name for network in results.run.networks]
    contestants = [contestant.name for contestant in results.run.contestants]

    def place(key: Key) -> tuple[int, int, int]:
        network, batch, contestant = key
        position = networks.index(network) if network in networks else len(networks)
        return position, batch, contestants.index(contestant) if contestant in contestants else len(contestants)

    cells = {key_of(cell): cell for cell in results.cells if cell.failure is None and (cell.rounds or cell.server)}
    return {key: cells[key] for key in sorted(cells, key=place)}


def _check_comparable(old: Cell, new: Cell) -> None:
    network, batch, contestant = key_of(old)
    where = f"{network}, batch size {batch}, {contestant}"
    if old.scenario != new.scenario:
        raise UserError(f"{where}: measured for {old.scenario} in one run and for {new.scenario} in the other")
    if old.server and new.server and old.server.bound != new.server.bound:
        raise UserError(
            f"{where}: the p99 had to stay within {number(old.server.bound)} ms in one run and within "
            f"{number(new.server.bound)} ms in the other; measure both with the same --latency-bound"
        )
    for name in sorted({*old.checkpoint, *new.checkpoint}):
        one, other = old.checkpoint.get(name), new.checkpoint.get(name)
        if one != other:
            raise UserError(
                f"{where}: the two runs did not measure the same network, its {name} has SHA-256 {str(one)[:12]} in "
                f"one and {str(other)[:12]} in the other; measure the same checkpoint"
            )


def _compared(old: Cell, new: Cell, fail_below: Optional[float], metric: Optional[Metric]) -> Compared:
    chosen: Literal[Metric, "rate"]
    if old.server and new.server:
        chosen, value = "rate", _rate_ratio(new.server, old.server)
    else:
        timed: Metric = metric or ("latency" if old.scenario == "latency" else "throughput")
        chosen, value = timed, ratio(new, old, timed, paired=False)
    others = tuple(f"in {run}, {text}" for run, cell in (("OLD", old), ("NEW", new)) for text in disturbances(cell))
    doubts = tuple(f"in {run}, {text}" for run, cell in (("OLD", old), ("NEW", new)) for text in warnings(cell))
    below = fail_below is not None and value.value < fail_below and value.high < fail_below
    return Compared(*key_of(old), chosen, value, others, doubts, below and not others)


def _rate_ratio(new: Server, old: Server) -> Ratio:
    """The ratio of two rates, with the least and the most that the two searches allow."""
    if new.rate == old.rate == 0:
        return Ratio(1.0, 1.0, 1.0)
    if old.rate == 0:
        return Ratio(math.inf, math.inf, math.inf)
    return Ratio(new.rate / old.rate, new.rate / _ceiling(old), _ceiling(new) / old.rate)


def _ceiling(server: Server) -> float:
    """The highest rate that the search allows: the lowest that did not hold."""
    if server.rate == 0:
        return 0.0
    broken = [trial.rate for trial in server.trials if trial.p99 > server.bound]
    return max(min(broken, default=0.0), server.rate * SEARCH_PRECISION)


def _absent(key: Key, other: Results) -> Absent:
    """A cell without a result in the other run."""
    for cell in other.cells:
        if key_of(cell) == key:
            why = f"failed: {cell.failure.reason}" if cell.failure else "has no timings"
            return Absent(*key, why, failed=True)
    for each in other.run.left_out:
        if (each.network, each.batch, each.contestant) == key:
            return Absent(*key, f"was left out: {each.reason}")
    state = other.run.state
    why = "is not part of the run" if state == "finished" else f"was not measured, the run is not complete ({state})"
    return Absent(*key, why)


def _counted(cell: Absent, fail_below: Optional[float], allow_missing: bool) -> Absent:
    return replace(cell, regressed=fail_below is not None and (cell.failed or not allow_missing))
