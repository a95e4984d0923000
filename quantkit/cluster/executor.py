"""ClusterExecutor: carries out aggregations on the workers of a Dask cluster."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, Optional

from quantkit.cluster.arrays import decode
from quantkit.cluster.job import Job, Shard, pack
from quantkit.cluster.node import Node, shares, this_node
from quantkit.cluster.partial_results import PartialResults
from quantkit.cluster.shards import shard_size
from quantkit.cluster.tasks import Tasks
from quantkit.cluster.worker import Session, Work, end_session
from quantkit.data.aggregation import Aggregation, Executor, Partial, Result, in_this_process
from quantkit.data.batch_stream import BatchStream
from quantkit.errors import ClusterError
from quantkit.kinds import whole_number
from quantkit.progress import Progress
from quantkit.units import counted

if TYPE_CHECKING:
    from distributed import Client

# So many shards are with the cluster for each that is computed: none waits for the client, and few fill its memory.
_AHEAD = 2

# Seconds after which slow shards are looked for, and how many times the median one is slow.
_LOOK_EVERY = 1.0
_SLOW = 3.0


class ClusterExecutor:
    """An ``Executor`` on a cluster; to be closed when nothing more is to be computed there.

    The result of an aggregation is that of one process, to the last bit: shards are cut between batches, and combined
    in the order of the samples, whichever worker has computed them. Partial results of samples that have an address
    are kept on disk until the whole is known, so that the same call goes on where an earlier one was interrupted.

    Attributes:
        work: who has computed which shards, and when, of all aggregations.
        slots: how many shards are computed at once.
        description: the cluster in words.
    """

    def __init__(self, client: Client, shard_samples: Optional[int] = None) -> None:
        """Look at the cluster's workers.

        Args:
            client: of the cluster.
            shard_samples: how many samples a shard has, rounded up to whole batches; None: as many as give each worker
                some shards.

        Raises:
            ClusterError: the cluster has no workers, or their versions differ from each other's or this process's.
            UserError: ``shard_samples`` is no whole number from 1 up.
        """
        self._shard_samples = None if shard_samples is None else whole_number("shard_samples", shard_samples, 1)
        self._client = client
        self._address = client.scheduler.address
        nodes = nodes_of(client)
        self.slots = sum(client.nthreads().values())
        versions = next(iter(nodes.values())).versions
        hosts = len({node.host for node in nodes.values()})
        self.description = f"{counted(len(nodes), 'worker')} on {counted(hosts, 'host')}, {versions.instructions}"
        self._session = Session(uuid.uuid4().hex, versions, shares(nodes))
        self.work: list[Work] = []

    def __enter__(self) -> ClusterExecutor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the engines of all workers."""
        # A cluster that is gone has none.
        with suppress(Exception):
            self._client.run(end_session, self._session.name)

    def __call__(self, aggregation: Aggregation[Result], stream: BatchStream, progress: Progress, title: str) -> Result:
        """See ``Executor``.

        Raises:
            ClusterError: all workers were lost, or a shard ends whichever worker takes it.
            QuantkitError: what the aggregation raises.
        """
        job = Job.of(aggregation, stream)
        if job.address is None or stream.size is None:
            return self._of_prepared(aggregation, stream, progress, title)
        known = PartialResults(job, stream, self._session.versions)
        size = known.shard_size if self._shard_samples is None else None
        size = size or shard_size(stream.size, stream.batch_size, self.slots, self._shard_samples)
        shards = [(start, min(start + size, stream.size)) for start in range(0, stream.size, size)]
        parts = {number: part for number, each in enumerate(shards) if (part := known.get(*each)) is not None}
        missing = [number for number in range(len(shards)) if number not in parts]
        wanted = ((number, stream.part(*shards[number]).samples.positions or ()) for number in missing)
        results = self._results(job, wanted)
        for number, work in progress(results, len(missing), title):
            known.put(*shards[number], work.content)
            parts[number] = decode(work.content)
        result = aggregation.combine([parts[number] for number in range(len(shards))])
        known.clear()
        return result

    def _of_prepared(
        self, aggregation: Aggregation[Result], stream: BatchStream, progress: Progress, title: str
    ) -> Result:
        """The result over samples that are read here and sent out."""
        job = Job.of(aggregation, stream).without_address()
        size = shard_size(stream.size, stream.batch_size, self.slots, self._shard_samples)
        parts: dict[int, Partial] = {}
        results = self._results(job, enumerate(prepared(stream, size)))
        for number, work in progress(results, -(-(stream.size or 0) // size), title):
            parts[number] = decode(work.content)
        return aggregation.combine([parts[number] for number in sorted(parts)])

    def _results(self, job: Job, shards: Iterator[tuple[int, Shard]]) -> Iterator[tuple[int, Work]]:
        """The results of shards as they come, with their numbers; a few for each worker are with the cluster."""
        from distributed import CancelledError, wait

        tasks = Tasks(self._client, self._session, *pack(job))
        took: list[float] = []
        try:
            for number, shard in islice(shards, _AHEAD * self.slots):
                tasks.submit(number, shard)
            while tasks.waiting:
                # Whether one was lost shows below.
                with self._client.as_current(), suppress(TimeoutError, CancelledError):
                    wait(list(tasks.waiting), timeout=_LOOK_EVERY, return_when="FIRST_COMPLETED")
                for number, work in tasks.finished():
                    self.work.append(work)
                    took.append(work.ended - work.began)
                    yield number, work
                    for another in islice(shards, 1):
                        tasks.submit(*another)
                if took and len(tasks.waiting) < self.slots:
                    tasks.copy_slow(_SLOW * median(took))
        except OSError as error:
            raise ClusterError(
                f"the scheduler at {self._address} no longer answers ({error}); start it again, and run the same "
                "command: what is known by now is kept"
            ) from error
        finally:
            tasks.cancel()


@contextmanager
def on_cluster(client: Optional[Client]) -> Iterator[Executor]:
    """The executor of a cluster, until the end of the context; that of this process if ``client`` is None.

    Raises:
        ClusterError: see ``ClusterExecutor``.
    """
    if client is None:
        yield in_this_process
        return
    with ClusterExecutor(client) as executor:
        yield executor


def nodes_of(client: Client) -> dict[str, Node]:
    """Where the workers of a cluster run, by their addresses.

    Raises:
        ClusterError: there are none, or they have other versions than this process or each other.
    """
    try:
        nodes: dict[str, Node] = client.run(this_node)
    except Exception as error:
        raise ClusterError(
            f"workers cannot run quantkit ({type(error).__name__}: {error}); install this version of it on each"
        ) from error
    if not nodes:
        raise ClusterError(f"the cluster at {client.scheduler.address} has no workers; start some")
    own, first = this_node().versions, next(iter(nodes.values())).versions
    # Where the client computes nothing, its processor does not matter.
    expected = own.with_instructions(first.instructions)
    for address, node in nodes.items():
        if (obstacle := node.versions.obstacle(expected, f"worker {address}")) is not None:
            raise ClusterError(obstacle)
    return nodes


def prepared(stream: BatchStream, size: int) -> Iterator[Shard]:
    """The batches of each shard of ``size`` samples, read here."""
    batches = iter(stream)
    while shard := list(islice(batches, size // stream.batch_size)):
        yield shard
