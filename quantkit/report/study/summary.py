"""Benchmark results as plain values: one row for each measured cell, with its ratios to the baseline."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Optional

import numpy as np

from quantkit.benchmark.results.cell_warnings import warnings
from quantkit.benchmark.results.results import Cell, LeftOut, Network, Published, Results, Run
from quantkit.benchmark.results.statistics import Metric, Ratio, latencies, mean_latency, ratio, throughput
from quantkit.errors import UserError
from quantkit.report.study.words import listed, plural

METRICS: tuple[Metric, ...] = ("throughput", "latency")
PERCENTILES = (50, 90, 99)
Key = tuple[str, int, str]
# Up to this many networks are named one by one.
_FEW = 3


@dataclass(frozen=True)
class Row:
    """The figures of one measured cell.

    ``throughput`` is in items per second, latencies in ms per request (``percentiles`` are those of
    ``PERCENTILES``). ``speedups`` holds the ratio to the baseline by metric, empty if the baseline has no
    result; ``published`` the published speed-ups. ``cost`` is the price of a million items, if it was requested.
    """

    network: str
    batch: int
    contestant: str
    scenario: str
    instances: int
    rounds: int
    requests: int
    throughput: float
    mean_latency: float
    percentiles: tuple[float, ...]
    speedups: Mapping[Metric, Ratio]
    published: Mapping[Metric, float]
    cost: Optional[float]
    warnings: tuple[str, ...]

    @property
    def key(self) -> Key:
        """Network, batch size and contestant."""
        return self.network, self.batch, self.contestant

    @property
    def metric(self) -> Metric:
        """The metric that this cell was measured for."""
        return "latency" if self.scenario == "latency" else "throughput"

    @property
    def speedup(self) -> Optional[Ratio]:
        """The ratio to the baseline in the cell's own metric."""
        return self.speedups.get(self.metric)


@dataclass(frozen=True)
class Study:
    """One run, evaluated: ``cells`` and ``rows`` are those with timings, in the order of the run's own lists.

    ``price`` is what its machine costs in an hour, None if that is unknown.
    """

    run: Run
    cells: Mapping[Key, Cell]
    rows: tuple[Row, ...]
    served: tuple[Cell, ...]
    failed: tuple[Cell, ...]
    price: Optional[float] = None

    @property
    def challengers(self) -> tuple[str, ...]:
        """The names of all contestants but the baseline."""
        return tuple(each.name for each in self.run.contestants if each.name != self.run.baseline)

    @property
    def networks(self) -> tuple[Network, ...]:
        """The networks of the run that have timings."""
        timed = {row.network for row in self.rows}
        return tuple(network for network in self.run.networks if network.name in timed)

    @property
    def warned(self) -> tuple[tuple[Key, str], ...]:
        """The warnings of every cell that has a result, timed or served."""
        served = [cell for cell in self.served if not cell.rounds]
        warned = [(row.key, row.warnings) for row in self.rows] + [(key_of(cell), warnings(cell)) for cell in served]
        return tuple((key, warning) for key, texts in warned for warning in texts)

    def doubtful(self, network: str, batch: int, *contestants: str) -> bool:
        """Whether a cell of one of these contestants has a warning, which makes figures from them doubtful."""
        warned = {key for key, _ in self.warned}
        return any((network, batch, name) in warned for name in contestants)

    def weights_note(self, networks: Iterable[str]) -> str:
        """Which of these networks have random weights, as a sentence; empty if none has."""
        chosen = set(networks)
        told = random_weights([each for each in self.run.networks if each.name in chosen])
        return told and f"{told}."

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The cells that were neither measured nor failed."""
        known = {*self.cells, *map(key_of, (*self.failed, *self.served))}
        return tuple(each for each in self.run.left_out if (each.network, each.batch, each.contestant) not in known)


def items(study: Study, networks: Iterable[str]) -> str:
    """The noun for the items of these networks, in the plural."""
    chosen = set(networks)
    nouns = {network.item for network in study.run.networks if network.name in chosen}
    return plural(nouns.pop()) if len(nouns) == 1 else "items"


def cost_of_million(price: Optional[float], speed: float) -> Optional[float]:
    """What a million items cost at a machine's price for an hour and a speed in items per second."""
    return None if price is None else price / (speed * 3600) * 1e6


def random_weights(networks: Sequence[Network]) -> str:
    """``net has random weights`` or ``All 8 networks have random weights``; empty if none has."""
    random = [network.name for network in networks if network.weights == "random"]
    if not random:
        return ""
    if len(random) == len(networks) > _FEW:
        return f"All {len(random)} networks have random weights"
    return f"{listed(random)} {'has' if len(random) == 1 else 'have'} random weights"


def key_of(cell: Cell) -> Key:
    """Network, batch size and contestant of a cell."""
    return cell.network, cell.batch, cell.contestant.name


def summarize(results: Sequence[Results], prices: Sequence[Optional[float]] = ()) -> tuple[Study, ...]:
    """Evaluate runs, each within its host.

    Args:
        results: at least one run.
        prices: the price of each run's whole machine for an hour, in any currency; empty or None: unknown.

    Raises:
        UserError: a price is not a positive number, the prices are not as many as the runs, or one host has two.
    """
    for price in prices:
        if price is not None and not (math.isfinite(price) and price > 0):
            raise UserError(f"a price per hour is a number above zero, not {price}")
    if prices and len(prices) != len(results):
        raise UserError(f"there are {len(prices)} prices for {len(results)} runs; give one for each, or none")
    _check_one_price([each.run for each in results], prices)
    return tuple(_study(each, price) for each, price in zip(results, prices or [None] * len(results)))


def _check_one_price(runs: Sequence[Run], prices: Sequence[Optional[float]]) -> None:
    """Reject two prices for one machine; ``prices`` are those of ``runs``, or none."""
    first: dict[str, tuple[Run, float]] = {}
    for run, price in zip(runs, prices):
        host = run.host.get("id")
        if price is None or host is None:
            continue
        other, known = first.setdefault(str(host), (run, price))
        if known != price:
            raise UserError(
                f"{other.name} and {run.name} ran on one host, {_host(run)}, and have two prices per hour, {known:g} "
                f"and {price:g}; give both the same"
            )


def check_same_host(one: Run, other: Run) -> None:
    """Reject runs of different machines.

    Raises:
        UserError: the machines differ; the message names both hosts.
    """
    if one.host.get("id") is None or one.host.get("id") != other.host.get("id"):
        raise UserError(
            f"the results are from different hosts: {one.name} ran on {_host(one)}, {other.name} on {_host(other)}; "
            "ratios of different machines mean nothing: measure both on one, or `quantkit report --across-hosts` for "
            "absolute figures"
        )


def _host(run: Run) -> str:
    return f"{run.host.get('id')} ({run.host.get('cpu')}, cores: {run.host.get('cores')})"


def _study(results: Results, price: Optional[float]) -> Study:
    order = _order(results)
    done = [cell for cell in order if cell.failure is None]
    cells = {key_of(cell): cell for cell in done if cell.rounds}
    run = replace(results.run, published=_placed(results.run, cells))
    published = _published_speedups(run)
    rows = tuple(
        _row(cell, cells.get((cell.network, cell.batch, run.baseline)), run, published, price)
        for cell in cells.values()
    )
    return Study(
        run,
        cells,
        rows,
        served=tuple(cell for cell in done if cell.server is not None),
        failed=tuple(cell for cell in order if cell.failure is not None),
        price=price,
    )


def _order(results: Results) -> list[Cell]:
    run = results.run
    networks = {network.name: place for place, network in enumerate(run.networks)}
    contestants = {contestant.name: place for place, contestant in enumerate(run.contestants)}
    for cell in results.cells:
        if cell.network not in networks or cell.contestant.name not in contestants:
            raise UserError(
                f"run {run.name} has a cell of {cell.network}, {cell.contestant.name}, which it does not list; "
                "its folder holds files of another run, remove them"
            )
    return sorted(
        results.cells, key=lambda cell: (networks[cell.network], cell.batch, contestants[cell.contestant.name])
    )


def _row(
    cell: Cell,
    baseline: Optional[Cell],
    run: Run,
    published: Mapping[tuple[Key, str], float],
    price: Optional[float],
) -> Row:
    speed = throughput(cell)
    durations = latencies(cell)
    compared = baseline is not None and cell.contestant.name != run.baseline
    return Row(
        network=cell.network,
        batch=cell.batch,
        contestant=cell.contestant.name,
        scenario=cell.scenario,
        instances=len(cell.placements),
        rounds=len(cell.rounds),
        requests=len(durations),
        throughput=speed,
        mean_latency=mean_latency(cell),
        percentiles=tuple(float(value) for value in np.percentile(durations, PERCENTILES)),
        speedups={metric: ratio(cell, baseline, metric) for metric in METRICS} if compared and baseline else {},
        published={
            metric: published[key_of(cell), metric] for metric in METRICS if (key_of(cell), metric) in published
        },
        cost=cost_of_million(price, speed) if cell.scenario == "throughput" else None,
        warnings=warnings(cell),
    )


def _placed(run: Run, cells: Collection[Key]) -> tuple[Published, ...]:
    """The published figures, those for the nearest batch size at the one that the baseline was measured at."""
    placed = []
    for each in run.published:
        measured = [(batch, name) for network, batch, name in cells if network == each.network]
        batches = [batch for batch, name in measured if name == run.baseline] or [batch for batch, _ in measured]
        if each.nearest and batches:
            nearest = min(batches, key=lambda batch: abs(math.log(batch / each.batch)))
            each = replace(each, batch=nearest, own_batch=each.batch if nearest != each.batch else 0)
        placed.append(each)
    return tuple(placed)


def _published_speedups(run: Run) -> dict[tuple[Key, str], float]:
    """Published speed-ups by cell and scenario, computed from throughputs and latencies where these are published."""
    values = {
        (each.network, each.batch, each.contestant, each.scenario, each.metric): each.value for each in run.published
    }
    speedups = {}
    for (network, batch, contestant, scenario, metric), value in values.items():
        reference = values.get((network, batch, run.baseline, scenario, metric))
        if contestant == run.baseline:
            continue
        if metric == "speedup":
            speedups[(network, batch, contestant), scenario] = value
        elif reference and value:
            better = value / reference if metric == "throughput" else reference / value
            speedups.setdefault(((network, batch, contestant), scenario), better)
    return speedups


def has_published_speedup(row: Row, metric: Metric) -> bool:
    """Whether a row has a speed-up of its own and a published one."""
    return metric in row.published and metric in row.speedups


def published_throughputs(run: Run) -> dict[Key, float]:
    """The published items per second of the run's scenario by cell."""
    return {
        (each.network, each.batch, each.contestant): each.value
        for each in run.published
        if each.metric == "throughput" and each.scenario == run.scenario
    }
