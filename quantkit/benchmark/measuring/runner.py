"""Running a suite: network by network, batch by batch, within a budget, resumable."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Optional

import numpy as np

from quantkit.benchmark.measuring.group import Bench, Entry, Search
from quantkit.benchmark.measuring.kept_cells import kept_cells
from quantkit.benchmark.measuring.memory import Memory, larger_than
from quantkit.benchmark.measuring.room import Room
from quantkit.benchmark.measuring.schedule import Forecast, affordable, least_cost, pace, share
from quantkit.benchmark.measuring.server import Served, Watch, search_rate
from quantkit.benchmark.measuring.team import Launch
from quantkit.benchmark.results.result_files import read_run, write_cell, write_run
from quantkit.benchmark.results.results import Cell, Contestant, Failure, LeftOut, Results, Run
from quantkit.benchmark.results.run_folder import begin
from quantkit.benchmark.results.statistics import mean_latency
from quantkit.benchmark.suites.suite import Subject, Suite, batches_of
from quantkit.benchmark.variants import form_of
from quantkit.benchmark.workloads.network import Workload
from quantkit.errors import QuantkitError
from quantkit.files.folders import scratch_folder
from quantkit.progress import Tell

# Seconds of requests in each run of the server scenario.
_TRIAL_SECONDS = 5.0

Key = tuple[int, str]


def run_suite(
    suite: Suite,
    run: Run,
    workloads: Mapping[str, Workload],
    launches: Mapping[str, Sequence[Launch]],
    folder: Path,
    tell: Tell,
    started: Optional[float] = None,
    latency_bound: Optional[float] = None,
) -> Results:
    """Measure all cells of a suite that the folder does not hold yet.

    Every cell is on disk when its group is done; cells beyond the budget are in the run's ``left_out``.

    Args:
        suite: the suite to measure.
        run: its description for the folder.
        workloads: by the names of the suite's networks.
        launches: how to start each contestant's instances, by its name.
        folder: the folder of the results; those of an interrupted run of the same suite are kept.
        tell: called with messages about the progress.
        started: when the budget began, on the monotonic clock in seconds; None: now.
        latency_bound: the p99 limit of the server scenario, in ms.

    Raises:
        UserError: the folder holds cells of another run.
        QuantkitError: the run's description cannot be written; a cell that cannot be written has failed.
    """
    before = kept_cells(suite, workloads, launches, latency_bound, folder)
    begin(run, folder)
    search = None if latency_bound is None else partial(_search, latency_bound, run.seed, tell)
    runner = _Runner(suite, run, before, workloads, launches, folder, tell, started or time.monotonic(), search)
    try:
        runner.measure(suite.networks)
        # Time that the others did not need may be enough for some of the cells left out.
        runner.measure(runner.incomplete())
        runner.write("finished")
    except (KeyboardInterrupt, QuantkitError) as error:
        with suppress(QuantkitError):
            runner.write("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    # Not read from disk, which may have been too full for some cells.
    return Results(read_run(folder), runner.cells())


def _form(contestant: Contestant, launches: Mapping[str, Sequence[Launch]]) -> str:
    return form_of(launches[contestant.name][0].engine, contestant.variant)


def _search(bound: float, seed: int, tell: Tell, serve: Sequence[Callable[[], object]], watch: Watch) -> Served:
    """The highest rate that instances sustain within the bound; LoadGen's logs are not kept."""
    with scratch_folder() as logs:
        return search_rate(serve, watch, bound, _TRIAL_SECONDS, seed, logs, tell)


class _Runner:
    """A run in progress."""

    def __init__(
        self,
        suite: Suite,
        run: Run,
        before: Sequence[Cell],
        workloads: Mapping[str, Workload],
        launches: Mapping[str, Sequence[Launch]],
        folder: Path,
        tell: Tell,
        started: float,
        search: Optional[Search],
    ) -> None:
        self._suite, self._run, self._folder, self._tell = suite, run, folder, tell
        self._cells = {(cell.network, cell.batch, cell.contestant.name): cell for cell in before}
        self._workloads, self._launches = workloads, launches
        self._started = started
        self._search = search
        self._minutes_before = run.minutes
        self._forecast = Forecast({name: workload.macs for name, workload in workloads.items()})
        self._memory = Memory()
        self._left_out: list[LeftOut] = []
        # Those that more time would not help.
        self._hopeless: set[tuple[str, int, str]] = set()
        self._told: set[tuple[str, int, str]] = set()
        self._random = np.random.default_rng(run.seed)

    def write(self, state: str) -> None:
        """Write the state of the run."""
        minutes = self._minutes_before + (time.monotonic() - self._started) / 60
        write_run(replace(self._run, left_out=tuple(self._left_out), state=state, minutes=minutes), self._folder)

    def cells(self) -> tuple[Cell, ...]:
        """The cells that were measured or failed, in the order of names."""
        return tuple(self._cells[key] for key in sorted(self._cells))

    def incomplete(self) -> list[Subject]:
        """The networks with cells that were left out for want of time."""
        late = {
            cell.network for cell in self._left_out if (cell.network, cell.batch, cell.contestant) not in self._hopeless
        }
        return [each for each in self._suite.networks if each.name in late]

    def measure(self, networks: Sequence[Subject]) -> None:
        """Measure networks one after the other, each in its share of the time."""
        for position, network in enumerate(networks):
            self._left_out = [cell for cell in self._left_out if cell.network != network.name]
            self._measure_network(network, self._deadline(networks[position:]))

    def _measure_network(self, network: Subject, deadline: Optional[float]) -> None:
        workload = self._workloads[network.name]
        batches = batches_of(self._suite, network)
        scenario = network.scenario or self._suite.scenario
        search = self._search if scenario == "server" else None
        larger = larger_than(batches, self._suite.largest)
        # Time is kept for the smallest that may become the largest.
        expected = (*batches, *larger[:1])
        with Bench(workload, scenario, self._launches, self._forecast, self._random, search) as bench:
            room = None
            if self._suite.largest:
                room = Room(bench, self._memory, network.name, batches[0], self._suite.baseline)
            for batch in batches:
                later = [each for each in expected if each >= batch]
                self._measure_batch(bench, room, network.name, batch, later, deadline)
                # If the disk is full, measuring continues; the end shows whether it is still full.
                with suppress(QuantkitError):
                    self.write("running")
            if larger and room is not None:
                batch = self._largest(room, network, larger, deadline)
                self._measure_batch(bench, room, network.name, batch, [batch], deadline)
                with suppress(QuantkitError):
                    self.write("running")

    def _measure_batch(
        self,
        bench: Bench,
        room: Optional[Room],
        network: str,
        batch: int,
        batches: Sequence[int],
        deadline: Optional[float],
    ) -> None:
        names = [each.name for each in self._suite.contestants]
        done = {name: self._cells[network, batch, name] for name in names if (network, batch, name) in self._cells}
        for cell in done.values():
            if cell.rounds and cell.failure is None:
                self._forecast.learn(network, cell.contestant.name, batch, mean_latency(cell) / 1e3)
        known = [each for each in self._suite.contestants if self._is_known(network, each, batch, deadline)]
        chosen = self._chosen(network, batches, deadline)
        wanted = [each for each in self._suite.contestants if each not in known or (batch, each.name) in chosen]
        hindered = self._hindered(room, network, batch, wanted)
        wanted = [each for each in wanted if each.name not in hindered]
        missing = [each for each in self._suite.contestants if each.name not in {*done, *hindered}]
        for name in hindered.keys() - done.keys():
            self._hopeless.add((network, batch, name))
            self._note_left_out(network, batch, name, hindered[name])
        if not any(each in missing for each in wanted):
            self._leave_out(network, batch, missing, deadline)
            return
        self._tell(f"{network}, batch {batch}: {', '.join(each.name for each in wanted)}")
        entries = [bench.warm(each, batch) for each in wanted]
        for entry in entries:
            if entry.cell.failure is None:
                self._memory.learn(network, entry.cell.contestant.name, batch, bench.resident(entry.cell.contestant))
        # A contestant that was unknown before may have proved too slow.
        chosen = self._chosen(network, batches, deadline)
        ready = [each for each in entries if self._is_chosen(each, chosen)]
        measured = {each.cell.contestant.name for each in ready}
        self._leave_out(network, batch, [each for each in missing if each.name not in measured], deadline)
        if not any(each.name in measured for each in missing):
            return
        late = self._suite.baseline in done and self._suite.baseline not in measured
        available = self._available(network, batch, batches, chosen, deadline)
        requests = [each.request for each in ready if each.cell.failure is None]
        for cell in bench.measure(ready, pace(requests, available)):
            name = cell.contestant.name
            if late and name != self._suite.baseline:
                cell = replace(cell, warnings=(*cell.warnings, f"not measured in turns with {self._suite.baseline}"))
            if cell.failure is None or name not in done:
                cell = self._stored(cell)
                self._cells[network, batch, name] = cell
            if cell.failure is not None:
                instance = "" if cell.failure.instance is None else f", instance {cell.failure.instance}"
                self._tell(f"FAILED {network}, batch {batch}, {cell.contestant.name}{instance}: {cell.failure.reason}")

    def _is_chosen(self, entry: Entry, chosen: set[Key]) -> bool:
        cell = entry.cell
        return cell.failure is not None or (cell.batch, cell.contestant.name) in chosen

    def _stored(self, cell: Cell) -> Cell:
        """Write a cell; returns it, or a failed cell if the disk is full."""
        try:
            write_cell(cell, self._folder)
        except QuantkitError as error:
            cell = replace(cell, warm_up=(), rounds=(), failure=Failure("disk", None, str(error)))
            with suppress(QuantkitError):
                write_cell(cell, self._folder)
        return cell

    def _is_known(self, network: str, contestant: Contestant, batch: int, deadline: Optional[float]) -> bool:
        """Whether the cost is known well enough: seen in this network, or too high by the forecast."""
        if self._forecast.has_seen(network, contestant.name):
            return True
        request = self._forecast.seconds(network, contestant.name, batch)
        return request is not None and deadline is not None and least_cost(request) > deadline - time.monotonic()

    def _costs(self, network: str, batches: Sequence[int]) -> dict[Key, float]:
        """The least cost of the cells of these batch sizes, if known, for batch sizes with missing cells."""
        costs = {}
        for batch in batches:
            if all((network, batch, each.name) in self._cells for each in self._suite.contestants):
                continue
            for contestant in self._suite.contestants:
                request = self._forecast.seconds(network, contestant.name, batch)
                if request is not None:
                    costs[batch, contestant.name] = least_cost(request)
        return costs

    def _chosen(self, network: str, batches: Sequence[int], deadline: Optional[float]) -> set[Key]:
        costs = self._costs(network, batches)
        if deadline is None:
            return set(costs)
        contestants = len(self._suite.contestants)
        worth = {(batch, name): contestants if name == self._suite.baseline else 1 for batch, name in costs}
        return affordable(costs, worth, deadline - time.monotonic())

    def _available(
        self, network: str, batch: int, batches: Sequence[int], chosen: set[Key], deadline: Optional[float]
    ) -> Optional[float]:
        """The seconds for one batch size: its least cost, and an equal share of the remaining time."""
        if deadline is None:
            return None
        costs = {key: cost for key, cost in self._costs(network, batches).items() if key in chosen}
        own = sum(cost for (size, _), cost in costs.items() if size == batch)
        return own + max(0.0, deadline - time.monotonic() - sum(costs.values())) / len(batches)

    def _leave_out(
        self, network: str, batch: int, contestants: Sequence[Contestant], deadline: Optional[float]
    ) -> None:
        for contestant in contestants:
            request = self._forecast.seconds(network, contestant.name, batch) or 0.0
            left = max(0.0, (deadline or 0.0) - time.monotonic())
            text = (
                f"one request takes about {request:.2g} s, the least measurement {least_cost(request):.0f} s; "
                f"of the budget {left:.0f} s were left for this network"
            )
            self._note_left_out(network, batch, contestant.name, text)

    def _note_left_out(self, network: str, batch: int, name: str, text: str) -> None:
        self._left_out.append(LeftOut(network, batch, name, text))
        if (network, batch, name) not in self._told:
            self._told.add((network, batch, name))
            self._tell(f"left out {network}, batch {batch}, {name}: {text}")

    def _hindered(
        self, room: Optional[Room], network: str, batch: int, contestants: Sequence[Contestant]
    ) -> dict[str, str]:
        """Why contestants cannot be measured at a batch size, by name."""
        obstacles = self._workloads[network].obstacles
        forms = {each.name: _form(each, self._launches) for each in contestants}
        why = {name: obstacles[form] for name, form in forms.items() if form in obstacles}
        if room is None:
            return why
        return {**why, **room.refused([each for each in contestants if each.name not in why], batch)}

    def _largest(self, room: Room, network: Subject, candidates: Sequence[int], deadline: Optional[float]) -> int:
        """The largest batch size at which all that were measured before fit into memory and time; else the smallest.

        The one of an interrupted run stays.
        """
        names = [each.name for each in self._suite.contestants]
        done = [size for size in candidates if any((network.name, size, name) in self._cells for name in names)]
        if done:
            return max(done)
        last = batches_of(self._suite, network)[-1]
        before = [
            each
            for each in self._suite.contestants
            if (cell := self._cells.get((network.name, last, each.name))) is not None and cell.failure is None
        ]
        for size in reversed(candidates):
            chosen = self._chosen(network.name, [size], deadline)
            in_time = all((size, each.name) in chosen for each in before)
            if before and in_time and room.holds(before, size):
                return size
        return candidates[0]

    def _deadline(self, remaining: Sequence[Subject]) -> Optional[float]:
        """The end of the first remaining network's share of time, on the monotonic clock; None without a budget."""
        if self._run.budget is None:
            return None
        arithmetic = {
            each.name: self._workloads[each.name].macs * sum(batches_of(self._suite, each)) for each in remaining
        }
        now = time.monotonic()
        end = self._started + (self._run.budget - self._minutes_before) * 60
        return now + max(0.0, end - now) * share(arithmetic, remaining[0].name)
