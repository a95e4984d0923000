"""ClusterExecutor: carries out aggregations on the workers of a Dask cluster."""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from itertools import chain, islice, repeat
from statistics import median
from typing import TYPE_CHECKING, Any, Optional

from quantkit.cluster.arrays import from_bytes
from quantkit.cluster.job import Job, Shard
from quantkit.cluster.node import Node, shares, this_node
from quantkit.cluster.partial_results import PartialResults
from quantkit.cluster.shards import most_samples, spans
from quantkit.cluster.tasks import Tasks, answered, answering
from quantkit.cluster.worker import Session, Work, end_abandoned, end_session
from quantkit.data.aggregation import Aggregation, Executor, Result, combined, in_this_process
from quantkit.data.batch_stream import BatchStream
from quantkit.errors import ClusterError
from quantkit.kinds import whole_number
from quantkit.progress import Progress
from quantkit.units import counted

if TYPE_CHECKING:
    from distributed import Client

# So many shards are with the cluster for each that is computed, so that no worker waits for the client.
_AHEAD = 2

# Seconds after which slow shards and new workers are looked for, and how many times the median time for a sample is
# slow.
_LOOK_EVERY = 1.0
_SLOW = 3.0


class ClusterExecutor:
    """An ``Executor`` on a cluster; to be closed when nothing more is to be computed there.

    The result of an aggregation is that of one process whose engine has as many threads, to the last bit: shards are
    cut between batches, and combined in the order of the samples, whichever worker has computed them. Partial results
    of samples in files are kept on disk until the whole is known, so that the same call goes on where an earlier one
    was interrupted.

    Attributes:
        work: who has computed which shards, and when, of all aggregations.
        again: how many shards were lost and sent again.
        copies: how many were slow, and sent to a second worker.
        slots: how many shards are computed at once.
        description: the cluster in words.
    """

    def __init__(self, client: Client, shard_samples: Optional[int] = None, threads: int = 1) -> None:
        """Look at the cluster's workers.

        Args:
            client: of the cluster.
            shard_samples: how many samples a shard has, rounded up to whole batches; None: see ``spans``.
            threads: of each engine. Their number may change the last bit of layers that sum up many values.

        Raises:
            ClusterError: the cluster has no workers, or their versions differ from each other's or this process's.
            UserError: a number is not a whole one from 1 up.
        """
        self._shard_samples = None if shard_samples is None else whole_number("shard_samples", shard_samples, 1)
        self._client = client
        nodes = nodes_of(client)
        versions = next(iter(nodes.values())).versions
        self._session = Session(uuid.uuid4().hex, versions, whole_number("threads", threads, 1), shares(nodes))
        here = this_node().host
        self._here = [address for address, node in nodes.items() if node.host == here]
        self.work: list[Work] = []
        self.again = self.copies = 0
        self.slots = self._slots()
        hosts = len({node.host for node in nodes.values()})
        self.description = f"{counted(len(nodes), 'worker')} on {counted(hosts, 'host')}, {versions.instructions}"

    @property
    def environment(self) -> Mapping[str, Any]:
        """The versions and the processor of the workers, and the number of each engine's threads."""
        return {**asdict(self._session.versions), "threads": self._session.threads}

    def __enter__(self) -> ClusterExecutor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the engines of all workers."""
        # A cluster that is gone has none.
        if self._client.status == "running":
            with suppress(Exception):
                self._client.run(end_session, self._session.name)

    def __call__(self, aggregation: Aggregation[Result], stream: BatchStream, progress: Progress, title: str) -> Result:
        """See ``Executor``.

        Raises:
            ClusterError: all workers were lost, or a shard ends whichever worker takes it.
            QuantkitError: what the aggregation raises.
        """
        if stream.size == 0:
            return in_this_process(aggregation, stream, progress, title)
        job = Job.of(aggregation, stream)
        if job.address is None or stream.size is None:
            return self._of_prepared(job, aggregation, stream, progress, title)
        known = PartialResults(job, stream, self.environment)
        parts = {span: part for span in known.spans() if (part := known.get(span)) is not None}
        most = most_samples(stream.batch_size, self._shard_samples)
        wanted = spans(stream.size, stream.batch_size, most, self._sharing, parts)
        missing = [number for number, span in enumerate(wanted) if span not in parts]
        shards = ((number, stream.part(*wanted[number]).samples.positions or ()) for number in missing)
        with closing(self._results(job, shards, title)) as results:

            def contents() -> Iterator[tuple[int, bytes]]:
                yield from ((number, parts[span]) for number, span in enumerate(wanted) if span in parts)
                for number, content in progress(results, len(missing), title):
                    known.put(wanted[number], content)
                    yield number, content

            result = combined(aggregation, map(from_bytes, in_order(contents())), stream)
        known.clear()
        return result

    def _of_prepared(
        self, job: Job, aggregation: Aggregation[Result], stream: BatchStream, progress: Progress, title: str
    ) -> Result:
        """The result over samples that are read here and sent out."""
        most = most_samples(stream.batch_size, self._shard_samples, stream.input_shape)
        wanted = [] if stream.size is None else spans(stream.size, stream.batch_size, most, self._sharing)
        sizes = chain((stop - start for start, stop in wanted), repeat(most))
        with closing(self._results(job, enumerate(prepared(stream, sizes)), title)) as results:
            contents = in_order(progress(results, len(wanted), title))
            return combined(aggregation, map(from_bytes, contents), stream)

    def _results(
        self, job: Job, shards: Iterator[tuple[int, Shard]], title: str
    ) -> Generator[tuple[int, bytes], None, None]:
        """The results of shards as they come, with their numbers; a few for each worker are with the cluster."""
        tasks = Tasks(self._client, self._session, title, job.serialized())
        took: list[float] = []
        try:
            # By itself, Dask would give them to the worker that has the job, and pass some on a second later.
            for worker, (number, shard) in zip(self._places(), shards):
                tasks.submit(number, shard, worker)
            self._top_up(tasks, shards)
            while tasks.waiting:
                tasks.wait(_LOOK_EVERY)
                for number, content, work, samples in tasks.finished():
                    self.work.append(work)
                    took.append(work.seconds / samples)
                    yield number, content
                self._top_up(tasks, shards)
                if took and len(tasks.waiting) < self.slots:
                    tasks.copy_slow(_SLOW * median(took))
        finally:
            self.again += tasks.again
            self.copies += tasks.copies
            tasks.cancel()
            if tasks.abandoned:
                self._end_abandoned()

    def _end_abandoned(self) -> None:
        """Stop what still computes on this host although nobody waits for it."""
        # Workers that are gone compute nothing.
        with suppress(Exception):
            self._client.run(end_abandoned, self._session.name, workers=self._here, on_error="ignore")

    def _top_up(self, tasks: Tasks, shards: Iterator[tuple[int, Shard]]) -> None:
        """Send shards until each worker has some waiting; workers may have come or gone."""
        self.slots = self._slots()
        for number, shard in islice(shards, max(0, _AHEAD * self.slots - len(tasks.waiting))):
            tasks.submit(number, shard)

    def _places(self) -> Iterator[str]:
        """The workers by their addresses, each as often as the shards that it may have waiting, in turns."""
        threads = self._threads()
        for turn in range(_AHEAD * max(threads.values(), default=0)):
            yield from (address for address, number in threads.items() if turn < _AHEAD * number)

    @property
    def _sharing(self) -> Optional[int]:
        """Among how many workers samples are shared out; None where the user says how many a shard has."""
        return self.slots if self._shard_samples is None else None

    def _slots(self) -> int:
        return max(1, sum(self._threads().values()))

    def _threads(self) -> dict[str, int]:
        with answering(self._client):
            return {address: int(number) for address, number in self._client.nthreads().items()}


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
        ClusterError: there are none, they do not answer, or they have other versions than this process or each other.
    """
    try:
        nodes: dict[str, Node] = answered(client, partial(client.run, this_node))
    except ClusterError:
        raise
    except Exception as error:
        raise ClusterError(
            f"workers cannot run quantkit ({type(error).__name__}: {error}); install this version of it on each"
        ) from error
    if not nodes:
        raise ClusterError("the cluster has no workers; start some, and wait for them (client.wait_for_workers)")
    own, first = this_node().versions, next(iter(nodes.values())).versions
    # Where the client computes nothing, its processor does not matter.
    expected = own.on_processor_of(first)
    for address, node in nodes.items():
        if (obstacle := node.versions.obstacle(expected, f"worker {address}")) is not None:
            raise ClusterError(obstacle)
    return nodes


def prepared(stream: BatchStream, sizes: Iterable[int]) -> Iterator[Shard]:
    """The batches of shards of so many samples, read here."""
    batches = iter(stream)
    for size in sizes:
        if not (shard := list(islice(batches, -(-size // stream.batch_size)))):
            return
        yield shard


def in_order(contents: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """Contents by their numbers from 0 up, each as soon as all before it are there."""
    waiting: dict[int, bytes] = {}
    place = 0
    for number, content in contents:
        waiting[number] = content
        while place in waiting:
            yield waiting.pop(place)
            place += 1
