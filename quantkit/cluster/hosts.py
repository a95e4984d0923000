"""A suite on several hosts at the same time, each of which measures alone."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from quantkit.benchmark.measuring.measurement import Conditions
from quantkit.benchmark.results.cell_figures import figures
from quantkit.benchmark.results.result_files import CELLS, RUN, read_results
from quantkit.benchmark.results.results import Results
from quantkit.benchmark.suites.suite import Suite
from quantkit.cluster.host_benchmark import Measured, end_measurement, measure_on_host
from quantkit.cluster.node import Node, this_node
from quantkit.cluster.tasks import answered
from quantkit.data.sources import load_data
from quantkit.errors import ClusterError, QuantkitError
from quantkit.files.folders import Kind, check_destination, replacing
from quantkit.progress import Tell

if TYPE_CHECKING:
    from distributed import Client, Future

RESULTS = Kind("the results of a benchmark", RUN, frozenset({RUN, f"{CELLS}/*.json", ".lock"}))
"""What a host's folder holds; a run that measures into it has a lock there."""

# How often the clock of a host is asked for; the shortest way there and back tells it best.
_ASKED = 9


@dataclass(frozen=True)
class Clock:
    """How far a host's clock is ahead of this one's, and by how much that may be wrong; in seconds."""

    ahead: float
    uncertainty: float


@dataclass(frozen=True, eq=False)
class HostRun:
    """A suite on one host.

    Attributes:
        host: its name.
        folder: where its results are.
        clock: its clock.
        began, ended: seconds since the epoch, by this host's clock.
        results: what was measured; None if nothing was.
        failure: why; None if it was.
    """

    host: str
    folder: Path
    clock: Clock
    began: float
    ended: float
    results: Optional[Results]
    failure: Optional[str]


@dataclass(frozen=True)
class FleetRow:
    """The throughput of all hosts together, in items per second, for one contestant."""

    network: str
    batch: int
    contestant: str
    throughput: float
    hosts: int


def run_on_hosts(
    client: Client, suite: Suite, folder: Path, conditions: Conditions, tell: Tell, force: bool = False
) -> tuple[HostRun, ...]:
    """Measure a suite on each host of a cluster, all at the same time, and gather the results.

    Nothing else may run on the hosts. Each measures in a process of its own, with the environment that its worker was
    started with.

    Args:
        client: of the cluster; one worker of each host is used.
        suite: the suite. What it names must be there on every host.
        folder: takes a folder of results for each host, by its name.
        conditions: how to run it.
        tell: called with messages about the progress.
        force: whether earlier results there are replaced.

    Raises:
        UserError: a host's folder holds results and ``force`` is not given, or anything else.
        ClusterError: there are no workers, they do not answer, or one has another version of quantkit.
        QuantkitError: results cannot be written.
    """
    hosts = _hosts(client)
    if isinstance(conditions.data, str):
        # A name that is good in any folder.
        conditions = replace(conditions, data=load_data(conditions.data).address)
    folders = {worker: folder / name for worker, name in hosts.items()}
    for each in folders.values():
        check_destination(each, force, RESULTS)
    clocks = {worker: _clock(client, worker) for worker in hosts}
    runs = []
    with _measuring(client, hosts, suite, conditions) as futures:
        for worker, future in _as_completed(client, futures):
            run = _gathered(future, hosts[worker], folders[worker], clocks[worker], force)
            tell(f"{run.host}: {run.failure or f'measured in {(run.ended - run.began) / 60:.1f} min'}")
            runs.append(run)
    return tuple(sorted(runs, key=lambda run: run.host))


def fleet(runs: Sequence[HostRun]) -> tuple[FleetRow, ...]:
    """What all hosts do together where each was measured; those that failed do not count."""
    measured = [figures(run.results) for run in runs if run.results is not None]
    sums: dict[tuple[str, int, str], list[float]] = {}
    for rows in measured:
        for row in rows:
            sums.setdefault((row["network"], row["batch"], row["contestant"]), []).append(row["throughput"])
    return tuple(
        FleetRow(*key, sum(values), len(values)) for key, values in sums.items() if len(values) == len(measured)
    )


def together(runs: Sequence[HostRun]) -> float:
    """The share of the time, from 0 to 1, in which all hosts that measured did so at once."""
    measured = [run for run in runs if run.results is not None]
    if not measured:
        return 0.0
    whole = max(run.ended for run in measured) - min(run.began for run in measured)
    shared = min(run.ended for run in measured) - max(run.began for run in measured)
    return max(0.0, shared) / whole if whole else 1.0


def _hosts(client: Client) -> dict[str, str]:
    """A worker of each host, and a name for the host's folder."""
    nodes: Mapping[str, Node] = answered(client, partial(client.run, this_node))
    if not nodes:
        raise ClusterError("the cluster has no workers; start one on each host")
    own = this_node().versions
    workers: dict[str, str] = {}
    for worker, node in sorted(nodes.items()):
        # Engines and processors are what is compared.
        if node.versions.quantkit != own.quantkit:
            raise ClusterError(
                f"worker {worker} has quantkit {node.versions.quantkit}, and this process {own.quantkit}; install the "
                "same there"
            )
        workers.setdefault(node.host, worker)
    names: dict[str, str] = {}
    for host, worker in workers.items():
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", host.partition(" ")[0]).lstrip(".") or "host"
        taken = sum(each == name or each.startswith(f"{name}-") for each in names.values())
        names[worker] = f"{name}-{taken + 1}" if taken else name
    return names


def _clock(client: Client, worker: str) -> Clock:
    answers = []
    for _ in range(_ASKED):
        before = time.time()
        told = answered(client, partial(client.run, time.time, workers=[worker]))[worker]
        after = time.time()
        answers.append((after - before, told - (before + after) / 2))
    way, ahead = min(answers)
    return Clock(ahead, way / 2)


@contextmanager
def _measuring(
    client: Client, workers: Mapping[str, str], suite: Suite, conditions: Conditions
) -> Iterator[dict[str, Future]]:
    """The measurements of all workers, which end with the context."""
    names = {worker: uuid.uuid4().hex for worker in workers}
    try:
        yield {
            worker: client.submit(
                measure_on_host,
                name,
                suite,
                conditions,
                key=f"quantkit-{name}",
                pure=False,
                workers=[worker],
                retries=0,
            )
            for worker, name in names.items()
        }
    finally:
        # Of a scheduler or worker that is gone, nothing is left to end.
        with suppress(Exception):
            for worker, name in names.items():
                client.run(end_measurement, name, workers=[worker], on_error="ignore")


def _as_completed(client: Client, futures: Mapping[str, Future]) -> Iterator[tuple[str, Future]]:
    from distributed import as_completed

    workers = {future.key: worker for worker, future in futures.items()}
    for future in as_completed(list(futures.values()), loop=client.loop):
        yield workers[future.key], future


def _gathered(future: Future, host: str, folder: Path, clock: Clock, force: bool) -> HostRun:
    """What a host has measured, written into its folder."""
    try:
        measured: Measured = future.result()
    except QuantkitError as error:
        return HostRun(host, folder, clock, 0.0, 0.0, None, str(error))
    # Of Dask: the worker is gone, say.
    except Exception as error:
        return HostRun(host, folder, clock, 0.0, 0.0, None, f"the host was lost ({type(error).__name__}: {error})")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with replacing(folder, force, RESULTS) as new:
        (new / CELLS).mkdir()
        for name, content in measured.files.items():
            if name == RUN or re.fullmatch(rf"{CELLS}/[^/]+\.json", name):
                (new / name).write_bytes(content)
    began, ended = measured.began - clock.ahead, measured.ended - clock.ahead
    return HostRun(host, folder, clock, began, ended, read_results(folder), None)
