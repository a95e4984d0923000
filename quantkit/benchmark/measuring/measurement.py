"""From a suite to benchmark results: combining builds, checkpoints and placements."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any, Optional, Union

from quantkit.benchmark.build import Build
from quantkit.benchmark.builds.environments import open_builds
from quantkit.benchmark.measuring.binding import launch
from quantkit.benchmark.measuring.loadgen import check_loadgen
from quantkit.benchmark.measuring.runner import run_suite
from quantkit.benchmark.measuring.team import Launch
from quantkit.benchmark.placement.placement import place
from quantkit.benchmark.results.result_files import read_run, write_run
from quantkit.benchmark.results.results import Contestant, Network, Results, Run
from quantkit.benchmark.results.run_folder import claimed, continued, discard
from quantkit.benchmark.suites.compose import among
from quantkit.benchmark.suites.suite import Suite, batches_of, find_suite, read_suite, shipped_suites
from quantkit.benchmark.variants import form_of
from quantkit.benchmark.workloads.workload import Workload, prepare
from quantkit.errors import QuantkitError, UserError
from quantkit.host.cpu import read_cpu
from quantkit.host.limits import cut_short, read_limits
from quantkit.host.machine import describe, throttled
from quantkit.host.preloaded import ALLOCATORS, OPENMP
from quantkit.host.revision import own_revision
from quantkit.host.topology import Topology, read_topology
from quantkit.kinds import number, of_kind
from quantkit.progress import Tell
from quantkit.version import __version__


@dataclass(frozen=True)
class Conditions:
    """The conditions of a run of a suite.

    ``builds`` maps the suite's build names to others or to interpreters (``name=/path/python``); ``budget`` is in
    minutes, for preparing and measuring, None for the suite's own; ``openmp`` is ``gnu`` or ``intel``; ``allocator``
    is ``system``, ``jemalloc`` or ``tcmalloc``; ``latency_bound`` is in ms, for the server scenario; ``loading`` are
    options of ``load_model``; ``reference`` is the FP32 network that a bundle was made from; ``data`` are the images.

    Raises:
        UserError: there is no such runtime or allocator, or a budget or bound is no number above zero.
    """

    builds: Mapping[str, str] = field(default_factory=dict)
    budget: Optional[float] = None
    openmp: str = "gnu"
    allocator: str = "system"
    latency_bound: Optional[float] = None
    loading: Mapping[str, Any] = field(default_factory=dict)
    reference: Optional[str] = None
    data: Any = "builtin"
    seed: int = 0
    command: str = ""

    def __post_init__(self) -> None:
        """Refuse what would be noticed only after builds are made, or never."""
        for name, choices in (("openmp", OPENMP), ("allocator", ALLOCATORS)):
            if getattr(self, name) not in choices:
                raise UserError(f"{name} is {getattr(self, name)!r}; choose one of {', '.join(choices)}")
        for name in ("budget", "latency_bound"):
            if getattr(self, name) is not None:
                remedy = "give a number above zero, or None"
                value = number(name, getattr(self, name), remedy)
                if not (isfinite(value) and value > 0):
                    raise UserError(f"{name} is {value:g}; {remedy}")
                object.__setattr__(self, name, value)


def run_benchmark(
    suite: Union[Suite, str, Path],
    folder: Union[str, Path],
    conditions: Conditions = Conditions(),
    tell: Tell = print,
    force: bool = False,
) -> Results:
    """Measure a suite and write everything into a folder; an interrupted run of the same suite is continued.

    Contestants whose placement is impossible on this machine are left out and named in the run's warnings.

    Args:
        suite: a suite, the name of a shipped one, or a file.
        folder: the folder of the results.
        conditions: how to run it.
        tell: called with messages about the progress.
        force: discard another run in the folder.

    Raises:
        UserError: there is no such suite; a build, a network or every placement is unavailable; or the folder
            holds something else.
        QuantkitError: results cannot be written.
    """
    of_kind("conditions", conditions, Conditions, "such as Conditions(budget=5)")
    suite, folder = _read(suite), Path(folder)
    _check_server(suite, conditions)
    topology = read_topology()
    suite, warnings = _placeable(suite, topology)
    for warning in warnings:
        tell(warning)
    with claimed(folder):
        return _run(suite, folder, conditions, topology, warnings, tell, force)


def _run(
    suite: Suite,
    folder: Path,
    conditions: Conditions,
    topology: Topology,
    warnings: tuple[str, ...],
    tell: Tell,
    force: bool,
) -> Results:
    builds = _opened(suite, conditions, tell)
    started = time.monotonic()
    run = _described(suite, topology, tuple(builds.values()), conditions, warnings)
    run = run if force else continued(run, folder)
    forms = tuple(dict.fromkeys(form_of(builds[each.build].engine, each.variant) for each in suite.contestants))
    launches = {each.name: _launches(each, builds[each.build], topology, conditions) for each in suite.contestants}
    workloads: dict[str, Workload] = {}
    for subject in suite.networks:
        tell(f"preparing {subject.name}")
        workloads[subject.name] = prepare(
            subject, forms, conditions.data, conditions.reference, conditions.loading, tell
        )
    run = replace(run, networks=tuple(_network(each) for each in workloads.values()))
    if force:
        discard(folder)
    with _slowing_noted(folder):
        results = run_suite(suite, run, workloads, launches, folder, tell, started, conditions.latency_bound)
    return replace(results, run=read_run(folder))


def _read(suite: Union[Suite, str, Path]) -> Suite:
    if isinstance(suite, Suite):
        return suite
    path = find_suite(str(suite))
    if path is None and os.path.isfile(str(suite)):
        return read_suite(Path(suite))
    if path is None:
        raise UserError(f"there is no suite {str(suite)!r}; give a file, or one of {', '.join(shipped_suites())}")
    return read_suite(path)


def _check_server(suite: Suite, conditions: Conditions) -> None:
    """Check the requirements of the server scenario before anything long begins."""
    if not any(scenario == "server" for scenario in (suite.scenario, *(each.scenario for each in suite.networks))):
        return
    if conditions.latency_bound is None:
        raise UserError("the server scenario needs a latency bound, such as --latency-bound 15ms: the p99 to keep")
    if conditions.budget is not None:
        raise UserError("the server scenario ends when it has found the rate; leave out --budget")
    check_loadgen()


def _placeable(suite: Suite, topology: Topology) -> tuple[Suite, tuple[str, ...]]:
    """The suite without the contestants that cannot be placed here, and the reasons."""
    fitting: list[Contestant] = []
    reasons: list[str] = []
    for contestant in suite.contestants:
        try:
            place(contestant.policy, topology)
            fitting.append(contestant)
        except UserError as error:
            reasons.append(f"{contestant.name} is left out: {error}")
    if not fitting:
        raise UserError("; ".join(reasons))
    placeable = among(suite, fitting)
    if placeable.baseline != suite.baseline:
        reasons.append(f"{placeable.baseline} is the baseline in place of {suite.baseline}")
    return placeable, tuple(reasons)


def _opened(suite: Suite, conditions: Conditions, tell: Tell) -> dict[str, Build]:
    """The builds, by their names in the suite."""
    names = dict.fromkeys(each.build for each in suite.contestants)
    return open_builds({name: conditions.builds.get(name, name) for name in names}, tell)


def _described(
    suite: Suite, topology: Topology, builds: tuple[Build, ...], conditions: Conditions, warnings: tuple[str, ...]
) -> Run:
    return Run(
        name=suite.name,
        title=suite.title,
        scenario=suite.scenario,
        quantkit=__version__,
        command=conditions.command,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        host=describe(read_cpu(), read_limits(), topology),
        builds=builds,
        networks=(),
        batches=tuple(sorted({batch for each in suite.networks for batch in batches_of(suite, each)})),
        contestants=suite.contestants,
        baseline=suite.baseline,
        seed=conditions.seed,
        revision=own_revision(),
        budget=suite.budget if conditions.budget is None else conditions.budget,
        published=suite.published,
        source=suite.source,
        sources=suite.sources,
        warnings=warnings,
    )


def _launches(contestant: Contestant, build: Build, topology: Topology, conditions: Conditions) -> tuple[Launch, ...]:
    return tuple(
        launch(build, contestant.variant, each, conditions.openmp, conditions.allocator, contestant.settings)
        for each in place(contestant.policy, topology)
    )


def _network(workload: Workload) -> Network:
    return Network(workload.name, workload.weights, workload.macs, workload.item, dict(workload.accuracy))


def _slowed() -> dict[str, Optional[int]]:
    """How often events that slow down all programs have occurred, by description; None if the system does not count."""
    return {
        "the processor slowed down for heat {} times": throttled(),
        "the control group's quota of processor time ran out {} times": cut_short(),
    }


@contextmanager
def _slowing_noted(folder: Path) -> Iterator[None]:
    """Add a warning to the run in a folder for each event that has slowed down all programs meanwhile."""
    before = _slowed()
    try:
        yield
    finally:
        times = [(text, before[text], count) for text, count in _slowed().items()]
        warnings = tuple(
            f"{text.format(after - earlier)} during the run"
            for text, earlier, after in times
            if earlier is not None and after is not None and after > earlier
        )
        if warnings:
            # If not even this can be written, the run's own error says why.
            with suppress(QuantkitError):
                run = read_run(folder)
                write_run(replace(run, warnings=(*run.warnings, *warnings)), folder)
