"""The tasks of one job on a cluster: sent, sent again where they were lost, and copied where they are slow."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Optional, TypeVar

from quantkit.cluster.job import Shard, samples_in
from quantkit.cluster.worker import Session, Work, run_shard
from quantkit.errors import ClusterError, QuantkitError

if TYPE_CHECKING:
    from distributed import Client, Future

Answer = TypeVar("Answer")

# How often a shard is sent again after its work was lost, and a call repeated.
_RETRIES = 3

# Seconds that a cluster may be without workers: those that were killed are started again.
_DESERTED = 60.0

# No shard is slow within so many seconds.
_LEAST_SLOW = 1.0


@dataclass(frozen=True, eq=False)
class _Sent:
    """A shard that is with the cluster; ``attempt`` counts from 0, and ``copied`` is whether two workers have it."""

    number: int
    shard: Shard
    attempt: int
    copied: bool
    when: float


class Tasks:
    """The shards of a job that are with the cluster.

    Attributes:
        waiting: the tasks that nobody has taken the result of.
        abandoned: whether tasks were given up that may still run.
        again: how many shards were sent again, since they were lost.
        copies: how many were sent to a second worker, since they were slow.
    """

    def __init__(self, client: Client, session: Session, title: str, content: bytes) -> None:
        """Nothing is sent yet; ``content`` is the serialized job, of which each worker will have a copy."""
        self._client, self._session, self._title, self._content = client, session, title, content
        # No other call's: a task that was given up may still run.
        self._name = uuid.uuid4().hex
        self._scattered: Any = None
        self.waiting: dict[Future, _Sent] = {}
        self.abandoned = False
        self.again = self.copies = 0

    def submit(self, number: int, shard: Shard, worker: Optional[str] = None) -> None:
        """Send a shard, to this worker if it is there.

        Raises:
            ClusterError: the scheduler does not answer.
        """
        self._send(_Sent(number, shard, 0, False, time.monotonic()), None if worker is None else [worker])

    def wait(self, seconds: float) -> None:
        """Return when a task is finished, or after so many seconds.

        Raises:
            ClusterError: the scheduler does not answer.
        """
        from distributed import CancelledError, wait

        # Whether one was lost, ``finished`` sees.
        with answering(self._client), self._client.as_current(), suppress(TimeoutError, CancelledError):
            wait(list(self.waiting), timeout=seconds, return_when="FIRST_COMPLETED")

    def finished(self) -> Iterator[tuple[int, bytes, Work, int]]:
        """What has come: a shard's number, its result, who computed it, and how many samples it has.

        Shards that were lost are sent again.

        Raises:
            ClusterError: a shard ended several workers, or was lost too often.
            QuantkitError: what a shard raised.
        """
        for future in [each for each in self.waiting if each.done()]:
            sent = self.waiting.pop(future, None)
            # Its copy has come before.
            if sent is None:
                continue
            others = [each for each, other in self.waiting.items() if other.number == sent.number]
            done = _result(future, may_be_lost=bool(others) or sent.attempt < _RETRIES)
            if done is None and not others:
                self.again += 1
                self._send(_Sent(sent.number, sent.shard, sent.attempt + 1, False, time.monotonic()), None)
            elif done is not None:
                for other in others:
                    del self.waiting[other]
                self._give_up(others)
                yield sent.number, *done, samples_in(sent.shard)

    def copy_slow(self, seconds: float) -> None:
        """Send shards that take longer than this for each sample to other workers, too, but only once."""
        now = time.monotonic()

        def is_slow(sent: _Sent) -> bool:
            return not sent.copied and now - sent.when > max(seconds * samples_in(sent.shard), _LEAST_SLOW)

        slow = [(future, sent) for future, sent in self.waiting.items() if is_slow(sent)]
        if not slow:
            return
        with answering(self._client):
            having = {key: worker for worker, keys in self._client.processing().items() for key in keys}
            workers = list(self._client.nthreads())
        for future, sent in slow:
            others = [worker for worker in workers if worker != having.get(future.key)]
            if others:
                self.waiting[future] = copied = replace(sent, copied=True)
                self._send(copied, others)
                self.copies += 1

    def cancel(self) -> None:
        """Give up what is with the cluster."""
        unfinished = list(self.waiting)
        self.waiting.clear()
        self._give_up(unfinished)

    def _give_up(self, futures: list[Future]) -> None:
        if futures and self._client.status == "running":
            self.abandoned = True
            # Of a scheduler that is gone, nothing is left to give up.
            with suppress(ClusterError), answering(self._client):
                self._client.cancel(futures)

    def _send(self, sent: _Sent, workers: Optional[list[str]]) -> None:
        shard: Any = sent.shard
        if self._scattered is None or self._scattered.status != "finished":
            self._scattered = self._scatter(self._content)
        if isinstance(shard, list):
            shard = self._scatter(shard)
        with answering(self._client):
            future = self._client.submit(
                run_shard,
                self._session,
                self._name,
                self._title,
                self._scattered,
                shard,
                key=f"quantkit-{self._name}-{sent.number}-{sent.attempt}{'-copy' if sent.copied else ''}",
                pure=False,
                workers=workers,
                allow_other_workers=workers is not None,
            )
        self.waiting[future] = sent

    def _scatter(self, value: Any) -> Future:
        """A value that one worker has; others fetch it from there.

        Dask's ``broadcast`` would never end where a worker is lost meanwhile.

        Raises:
            ClusterError: the scheduler does not answer, or the cluster has no workers.
        """
        try:
            (future,) = answered(self._client, partial(self._client.scatter, [value], hash=False, timeout=_DESERTED))
        except TimeoutError as error:
            raise ClusterError(
                f"the cluster has had no workers for {_DESERTED:.0f} s; start some, and run the same command: what is "
                "known of samples in files is kept"
            ) from error
        return future


@contextmanager
def answering(client: Client) -> Iterator[None]:
    """Call the scheduler within this.

    Raises:
        ClusterError: it does not answer.
    """
    try:
        yield
    except TimeoutError:
        raise
    except OSError as error:
        raise ClusterError(
            f"the scheduler no longer answers ({error}); start it again, and run the same command: what is known of "
            "samples in files is kept"
        ) from error


def answered(client: Client, call: Callable[[], Answer]) -> Answer:
    """What a call gives that the scheduler passes on to workers.

    The scheduler drops the call where it loses one of them, without saying so; it is then repeated, with those that are
    left.

    Raises:
        ClusterError: the scheduler does not answer.
    """
    repeated = 0
    while True:
        try:
            with answering(client):
                return call()
        except ClusterError:
            if repeated == _RETRIES or client.status != "running":
                raise
            repeated += 1


def _result(future: Future, may_be_lost: bool) -> Optional[tuple[bytes, Work]]:
    """What a task has computed; None if it was lost with a worker.

    Raises:
        ClusterError: it ended several workers, failed for a reason of Dask's, or was lost although it must not.
        QuantkitError: what it raised.
    """
    from distributed import CancelledError, KilledWorker

    try:
        done: tuple[bytes, Work] = future.result()
    except QuantkitError:
        raise
    except KilledWorker as error:
        raise ClusterError(f"a shard ended several workers, one after the other ({error}); see their logs") from error
    except CancelledError as error:
        if may_be_lost:
            return None
        raise ClusterError("the cluster lost the work: workers or the scheduler were restarted; try again") from error
    except Exception as error:
        # Such as a worker without quantkit that came later.
        raise ClusterError(f"a worker cannot run quantkit ({type(error).__name__}: {error}); see its log") from error
    return done
