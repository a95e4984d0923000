"""The tasks of one job on a cluster: sent, sent again where they were lost, and copied where they are slow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from quantkit.cluster.job import Shard
from quantkit.cluster.worker import Session, Work, run_shard
from quantkit.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client, Future

# How often a shard is sent again after its work was lost.
_RETRIES = 3


@dataclass(frozen=True, eq=False)
class _Sent:
    """A shard that is with the cluster; ``attempt`` counts from 0, and ``copy`` is whether another works on it, too."""

    number: int
    shard: Shard
    attempt: int
    copy: bool
    when: float


class Tasks:
    """The shards of a job that are with the cluster. Its content is with the workers, each of which has a copy.

    Attributes:
        waiting: the tasks that nobody has taken the result of.
    """

    def __init__(self, client: Client, session: Session, name: str, content: bytes) -> None:
        self._client, self._session = client, session
        self._name, self._content = name, content
        self._scattered: Any = None
        self.waiting: dict[Future, _Sent] = {}

    def submit(self, number: int, shard: Shard) -> None:
        """Send a shard."""
        self._send(_Sent(number, shard, 0, False, time.monotonic()), None)

    def finished(self) -> Iterator[tuple[int, Work]]:
        """The results that have come, with the shards' numbers; shards that were lost are sent again.

        Raises:
            ClusterError: a shard ended several workers, or was lost too often.
            QuantkitError: what a shard raised.
        """
        for future in [each for each in self.waiting if each.done()]:
            sent = self.waiting.pop(future, None)
            # Its copy has come before.
            if sent is None:
                continue
            work = _result(future, sent.attempt < _RETRIES)
            if work is None:
                self._send(_Sent(sent.number, sent.shard, sent.attempt + 1, False, time.monotonic()), None)
                continue
            others = [each for each, other in self.waiting.items() if other.number == sent.number]
            for other in others:
                del self.waiting[other]
            if others:
                self._client.cancel(others)
            yield sent.number, work

    def copy_slow(self, seconds: float) -> None:
        """Send the shards that have been with the cluster for longer than this to other workers, too, but only once."""
        slow = {
            future: sent
            for future, sent in self.waiting.items()
            if not sent.copy and time.monotonic() - sent.when > max(seconds, 1.0)
        }
        if not slow:
            return
        having = {key: worker for worker, keys in self._client.processing().items() for key in keys}
        for future, sent in slow.items():
            others = [worker for worker in self._client.nthreads() if worker != having.get(future.key)]
            if others:
                self.waiting[future] = _Sent(sent.number, sent.shard, sent.attempt, True, sent.when)
                self._send(_Sent(sent.number, sent.shard, sent.attempt, True, sent.when), others)

    def cancel(self) -> None:
        """Give up what is with the cluster."""
        unfinished = list(self.waiting)
        self.waiting.clear()
        if unfinished and self._client.status == "running":
            self._client.cancel(unfinished)

    def _send(self, sent: _Sent, workers: Optional[list[str]]) -> None:
        if self._scattered is None or self._scattered.status != "finished":
            (self._scattered,) = self._client.scatter([self._content], broadcast=True, hash=False)
        copied = "-copy" if workers else ""
        future = self._client.submit(
            run_shard,
            self._session,
            self._name,
            self._scattered,
            sent.shard,
            key=f"quantkit-{self._session.name}-{self._name}-{sent.number}-{sent.attempt}{copied}",
            pure=False,
            workers=workers,
            allow_other_workers=workers is not None,
        )
        self.waiting[future] = sent


def _result(future: Future, again: bool) -> Optional[Work]:
    """What a task has computed; None if it was lost with a worker, and may be tried ``again``.

    Raises:
        ClusterError: it ended several workers, or was lost too often.
        QuantkitError: what it raised.
    """
    from distributed import CancelledError, KilledWorker

    try:
        work: Work = future.result()
    except KilledWorker as error:
        raise ClusterError(f"a shard ended several workers, one after the other ({error}); see their logs") from error
    except CancelledError as error:
        if again:
            return None
        raise ClusterError(
            "the cluster lost the work: its scheduler or all workers were restarted; try again"
        ) from error
    return work
