"""A suite on several hosts at the same time, each of which measures alone."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from quantkit.benchmark.measuring.measurement import Conditions
from quantkit.benchmark.results.cell_figures import figures
from quantkit.benchmark.results.result_files import CELLS, RUN, read_results
from quantkit.benchmark.results.results import Results
from quantkit.benchmark.suites.suite import Suite
from quantkit.cluster.host_benchmark import Measured, end_measurement, measure_on_host
from quantkit.cluster.node import Node, this_node
from quantkit.cluster.tasks import answered, answering
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

# Seconds after which lost workers are looked for.
_LOOK_EVERY = 1.0


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
    started with, but for the numbers of threads that Dask sets.

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
            if run.failure is None:
                tell(f"{run.host}: measured in {(run.ended - run.began) / 60:.1f} min")
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
    return _folder_names({worker: host for host, worker in workers.items()})


def _folder_names(hosts: Mapping[str, str]) -> dict[str, str]:
    """A name for the folder of each worker's host: its own; those of one name are numbered, in the same way each time.

    Args:
        hosts: by worker, each its name and what tells it from others of this name, after a space.
    """
    own = {
        worker: re.sub(r"[^A-Za-z0-9_.-]", "_", host.partition(" ")[0]).lstrip(".") or "host"
        for worker, host in hosts.items()
    }
    names: dict[str, str] = {}
    for worker in sorted(hosts, key=lambda each: hosts[each]):
        free = (f"{own[worker]}-{number}" for number in count(2))
        taken = {*own.values(), *names.values()}
        is_first = own[worker] not in names.values()
        names[worker] = own[worker] if is_first else next(name for name in free if name not in taken)
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
        for worker, name in names.items():
            # Of a scheduler or worker that is gone, nothing is left to end.
            with suppress(Exception):
                client.run(end_measurement, name, workers=[worker], on_error="ignore")


def _as_completed(client: Client, futures: Mapping[str, Future]) -> Iterator[tuple[str, Future]]:
    """The futures by their workers as they end; also those of workers that are lost, which never do."""
    from distributed import CancelledError, wait

    waiting = dict(futures)
    while waiting:
        with answering(client), client.as_current(), suppress(TimeoutError, CancelledError):
            wait(list(waiting.values()), timeout=_LOOK_EVERY, return_when="FIRST_COMPLETED")
        with answering(client):
            known = client.nthreads()
        for worker, future in list(waiting.items()):
            if future.done() or worker not in known:
                del waiting[worker]
                yield worker, future


def _gathered(future: Future, host: str, folder: Path, clock: Clock, force: bool) -> HostRun:
    """What a host has measured, written into its folder."""
    try:
        if not future.done():
            raise ClusterError("its worker was lost")
        measured: Measured = future.result()
        _write(measured.files, folder, force)
        results = read_results(folder)
    except QuantkitError as error:
        return _failed(host, folder, clock, str(error))
    # Of Dask, such as of a worker that was lost.
    except Exception as error:
        return _failed(host, folder, clock, f"the host was lost ({type(error).__name__}: {error})")
    return HostRun(host, folder, clock, measured.began - clock.ahead, measured.ended - clock.ahead, results, None)


def _failed(host: str, folder: Path, clock: Clock, why: str) -> HostRun:
    earlier = f"; {folder} holds an earlier run" if folder.exists() else ""
    return HostRun(host, folder, clock, 0.0, 0.0, None, f"{why}{earlier}")


def _write(files: Mapping[str, bytes], folder: Path, force: bool) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with replacing(folder, force, RESULTS) as new:
            (new / CELLS).mkdir()
            for name, content in files.items():
                if name == RUN or re.fullmatch(rf"{CELLS}/[^/]+\.json", name):
                    (new / name).write_bytes(content)
    except OSError as error:
        raise QuantkitError(f"cannot write {folder}: {error.strerror or error}; choose another folder") from error
