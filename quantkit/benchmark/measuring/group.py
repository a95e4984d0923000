"""Measuring the contestants of a network and batch size in turns."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Optional

import numpy as np

from quantkit.backends.registry import MXNET
from quantkit.benchmark.measuring.outputs import (
    FLOAT_ALLOWED,
    INT8_ALLOWED,
    allowed_for,
    deviation,
    int8_allowed,
    too_far,
)
from quantkit.benchmark.measuring.schedule import Forecast, Pace
from quantkit.benchmark.measuring.server import Served, Watch
from quantkit.benchmark.measuring.team import Launch, Team
from quantkit.benchmark.results.results import Agreement, Cell, Contestant, Failure, Round, WarmUp
from quantkit.benchmark.variants import VARIANTS, Variant, form_of
from quantkit.benchmark.workloads.network import Checkpoint, Workload
from quantkit.errors import InstanceError, QuantkitError
from quantkit.files import files
from quantkit.files.folders import scratch_folder
from quantkit.host.timing import interleaved

Search = Callable[[Sequence[Callable[[], object]], Watch], Served]

# A request that takes longer than this warms up by itself.
_SLOW = 1.0
# The first run prepares weights too, and only if it takes longer than this does it stand for the others.
_LONG_FIRST_RUN = 5.0
_LEAST_PATIENCE = 60.0
_UNKNOWN_PATIENCE = 900.0


@dataclass
class Entry:
    """A contestant's unfinished cell; ``request`` is the duration of one request in its warm-up, in seconds."""

    cell: Cell
    request: float = 0.0
    warm_up: tuple[WarmUp, ...] = ()
    rounds: list[Round] = field(default_factory=list)

    def fail(self, kind: str, instance: Optional[int], message: str, stderr: tuple[str, ...] = ()) -> None:
        """Record why the cell has no result."""
        self.cell = replace(self.cell, failure=Failure(kind, instance, message, stderr))


class Bench:
    """One network with its contestants' instances, which stay alive over all batch sizes.

    Use it as a context manager. A contestant whose instance fails is restarted for its next batch size.
    In the server scenario ``search`` finds the rate that instances can sustain.
    """

    def __init__(
        self,
        workload: Workload,
        scenario: str,
        launches: Mapping[str, Sequence[Launch]],
        forecast: Forecast,
        random: np.random.Generator,
        search: Optional[Search] = None,
    ) -> None:
        self._workload = workload
        self._scenario = scenario
        self._launches = launches
        self._forecast = forecast
        self._random = random
        self._search = search
        self._teams: dict[str, tuple[Team, dict[str, Any]]] = {}

    def warm(self, contestant: Contestant, batch: int) -> Entry:
        """Start a contestant unless it is running, bind it to the batch size and time a request."""
        launches = self._launches[contestant.name]
        entry = Entry(empty_cell(self._workload, self._scenario, contestant, batch, launches))
        patience = self._patience(contestant, batch)

        def first_runs() -> None:
            team, engine = self._team(contestant, patience)
            entry.cell = replace(entry.cell, engine=engine)
            team.bind(self._workload.input_name, self._workload.inputs(batch), patience)
            entry.warm_up = team.warm(0, 1, patience)
            if max(each.durations[0] for each in entry.warm_up) < _LONG_FIRST_RUN * 1e9:
                entry.warm_up = _joined(entry.warm_up, team.warm(0, 1, patience))
            entry.request = max(each.durations[-1] for each in entry.warm_up) / 1e9
            self._forecast.learn(self._workload.name, contestant.name, batch, entry.request)

        self._guarded(entry, first_runs)
        return entry

    def probe(self, contestant: Contestant, batch: int) -> Optional[int]:
        """The bytes of memory that a contestant holds after a run at a batch size; None if it fails."""
        patience = self._patience(contestant, batch)
        try:
            team, _ = self._team(contestant, patience)
            team.bind(self._workload.input_name, self._workload.inputs(batch), patience)
            team.warm(0, 1, patience)
        except InstanceError:
            self.end(contestant)
            return None
        return team.resident()

    def resident(self, contestant: Contestant) -> int:
        """The bytes of memory that a contestant holds now."""
        return self._teams[contestant.name][0].resident() if contestant.name in self._teams else 0

    def end(self, contestant: Contestant) -> None:
        """End a contestant's instances, if they run."""
        if contestant.name in self._teams:
            self._teams.pop(contestant.name)[0].close()

    def measure(self, entries: Sequence[Entry], pace: Pace) -> list[Cell]:
        """Warm up entries that have not failed, measure them in rounds of random order, check placement and outputs."""
        for entry in entries:
            if entry.request < _SLOW:
                self._guarded(entry, partial(self._warm_until_steady, entry, pace))
        if self._search is not None:
            for entry in entries:
                self._guarded(entry, partial(self._serve, entry, self._search))
        else:
            turns = [partial(self._guarded, entry, partial(self._measure_round, entry, pace)) for entry in entries]
            interleaved(dict(enumerate(turns)), pace.rounds, random=self._random)
        for entry in entries:
            self._guarded(entry, partial(self._prove, entry))
        try:
            with scratch_folder() as scratch:
                self._check_outputs(entries, scratch)
        except QuantkitError as error:
            for entry in entries:
                if entry.cell.failure is None and entry.cell.agreement is None:
                    entry.fail("disk", None, f"its outputs cannot be checked: {error}")
        return [self._finished(entry) for entry in entries]

    def _guarded(self, entry: Entry, step: Callable[[], None]) -> None:
        """Run one step of an entry unless it has failed; if the step fails, end its instances."""
        if entry.cell.failure is not None:
            return
        try:
            step()
        except InstanceError as error:
            entry.fail(error.kind, error.instance, str(error), error.stderr)
            self.end(entry.cell.contestant)

    def _team(self, contestant: Contestant, patience: float) -> tuple[Team, dict[str, Any]]:
        if contestant.name not in self._teams:
            team = Team(self._launches[contestant.name])
            # Registered before anything can fail, so that a failure ends it.
            self._teams[contestant.name] = team, {}
            checkpoint = _checkpoint(self._workload, contestant, self._launches[contestant.name])
            self._teams[contestant.name] = team, team.load(checkpoint.files, patience)
        return self._teams[contestant.name]

    def _warm_until_steady(self, entry: Entry, pace: Pace) -> None:
        team, _ = self._teams[entry.cell.contestant.name]
        more = team.warm(pace.warm_up, 1, self._patience(entry.cell.contestant, entry.cell.batch))
        entry.warm_up = _joined(entry.warm_up, more)
        entry.request = median(duration for each in more for duration in each.durations) / 1e9
        self._forecast.learn(entry.cell.network, entry.cell.contestant.name, entry.cell.batch, entry.request)

    def _measure_round(self, entry: Entry, pace: Pace) -> None:
        team, _ = self._teams[entry.cell.contestant.name]
        entry.rounds.append(team.measure(pace.seconds, self._patience(entry.cell.contestant, entry.cell.batch)))

    def _serve(self, entry: Entry, search: Search) -> None:
        team, _ = self._teams[entry.cell.contestant.name]
        served = search(team.servers(self._patience(entry.cell.contestant, entry.cell.batch)), team.watch)
        entry.cell = replace(entry.cell, server=served.server, warnings=(*entry.cell.warnings, *served.warnings))

    def _prove(self, entry: Entry) -> None:
        team, _ = self._teams[entry.cell.contestant.name]
        entry.cell = replace(entry.cell, proofs=team.prove())
        kernels = team.kernels(self._patience(entry.cell.contestant, entry.cell.batch))
        entry.cell = replace(entry.cell, kernels=kernels)
        if kernels is not None and kernels.int8 == 0 and _variant(entry).int8:
            layers = "convolutions, dense and recurrent layers"
            raise InstanceError("kernels", f"none of its {kernels.of} {layers} ran in INT8")

    def _check_outputs(self, entries: Sequence[Entry], scratch: Path) -> None:
        """Compare the outputs of every instance's last run with a reference.

        INT8 has its own; in FP32 the first contestant is the reference for all others, and for the networks of other
        quantizers.
        """
        standard: Optional[tuple[str, Path]] = None
        for number, entry in enumerate(sorted(entries, key=lambda entry: _variant(entry).int8)):
            cell = entry.cell
            folder = scratch / str(number)
            folder.mkdir()
            paths: list[Path] = []
            self._guarded(entry, partial(self._collect_outputs, entry, folder, paths))
            if not paths:
                continue
            try:
                own = self._workload.reference(cell.contestant.variant, cell.batch)
            except QuantkitError as error:
                entry.fail("output", None, f"there is nothing to compare its outputs with: {error}")
                continue
            if own is None and standard is None and not _variant(entry).int8:
                standard = cell.contestant.name, Path(shutil.copy(paths[0], scratch / "standard.npz"))
            reference = ("quantkit", own) if own is not None else standard
            if reference is not None:
                self._compare(entry, paths, *reference, self._allowed(entry, own, standard and standard[1]))

    def _allowed(self, entry: Entry, own: Optional[Path], standard: Optional[Path]) -> Optional[float]:
        """The allowed deviation of its outputs from the reference; None if it is not limited."""
        if _variant(entry).maker:
            return None
        if own is None:
            return FLOAT_ALLOWED if standard is None else allowed_for(standard, FLOAT_ALLOWED)
        if self._launches[entry.cell.contestant.name][0].engine == MXNET.name:
            return allowed_for(own, INT8_ALLOWED)
        return None if standard is None else int8_allowed(standard, own)

    def _collect_outputs(self, entry: Entry, folder: Path, paths: list[Path]) -> None:
        team, _ = self._teams[entry.cell.contestant.name]
        paths.extend(team.outputs(folder, self._patience(entry.cell.contestant, entry.cell.batch)))

    def _compare(
        self, entry: Entry, paths: Sequence[Path], name: str, reference: Path, allowed: Optional[float]
    ) -> None:
        deviations = [deviation(reference, path) for path in paths]
        entry.cell = replace(
            entry.cell, agreement=Agreement(name, _finite(max(deviations)), allowed and _finite(allowed))
        )
        if allowed is not None and not np.isfinite(allowed):
            entry.fail(
                "output", None, f"nothing tells how far its outputs may be from those of {name}, which are not finite"
            )
            return
        for instance, value in enumerate(deviations):
            if not np.isfinite(value) or (allowed is not None and value > allowed):
                entry.fail("output", instance, too_far(value, name, allowed, int8=_variant(entry).int8))
                return

    def _finished(self, entry: Entry) -> Cell:
        return replace(entry.cell, warm_up=entry.warm_up, rounds=tuple(entry.rounds))

    def _patience(self, contestant: Contestant, batch: int) -> float:
        """Seconds that an instance may be silent before it counts as hanging."""
        expected = self._forecast.seconds(self._workload.name, contestant.name, batch)
        return _UNKNOWN_PATIENCE if expected is None else max(_LEAST_PATIENCE, 10 * expected)

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *exception: object) -> None:
        with ExitStack() as stack:
            for team, _ in self._teams.values():
                stack.callback(team.close)


def empty_cell(
    workload: Workload, scenario: str, contestant: Contestant, batch: int, launches: Sequence[Launch]
) -> Cell:
    """A cell before its measurement."""
    return Cell(
        network=workload.name,
        batch=batch,
        scenario=scenario,
        contestant=contestant,
        placements=tuple(launch.placement for launch in launches),
        environment=_told(launches[0].environment),
        checkpoint=_checkpoint(workload, contestant, launches).sha256,
        input=files.sha256_of(workload.inputs(batch)),
    )


def _checkpoint(workload: Workload, contestant: Contestant, launches: Sequence[Launch]) -> Checkpoint:
    return workload.checkpoint(form_of(launches[0].engine, contestant.variant))


def _joined(first: Sequence[WarmUp], then: Sequence[WarmUp]) -> tuple[WarmUp, ...]:
    return tuple(WarmUp(one.durations + two.durations, two.steady) for one, two in zip(first, then))


def _finite(value: float) -> float:
    """JSON has no infinity; the largest float stands for it."""
    return min(value, float(np.finfo(np.float64).max)) if value == value else float(np.finfo(np.float64).max)


def _variant(entry: Entry) -> Variant:
    return VARIANTS[entry.cell.contestant.variant]


_TOLD = ("OMP_", "GOMP_", "KMP_", "MXNET_", "MKLDNN_", "DNNL_", "LD_PRELOAD")


def _told(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that control engines and threads."""
    return {name: value for name, value in sorted(environment.items()) if name.startswith(_TOLD)}
