"""Requests of any thread or event loop, which wait in a queue for whoever computes them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Optional

import numpy as np

from quantkit.deployment.request import Request
from quantkit.deployment.request_queue import RequestQueue
from quantkit.deployment.runner import Outputs, RunnerStatus, closed, overdue

# So many samples may wait for each that computes, or four of its batches if they are more.
_WAITING = 64

# So many threads wait for room for requests of event loops.
_ENTERING = 4


class QueuedRequests:
    """The requests of all callers.

    Attributes:
        queue: those that nobody has begun to compute.
    """

    def __init__(self, number: int, batch: int, ahead: int, places: Optional[int] = None) -> None:
        """Begin without any.

        Args:
            number: how many compute them at a time.
            batch: the most samples that each computes at once.
            ahead: how many samples one caller has waiting or computed, so that all are busy.
            places: see ``RequestQueue``.
        """
        self._ahead = ahead
        self.queue = RequestQueue(max(_WAITING, 4 * batch) * number, number, places)
        # The samples of those of event loops, in order; the first of them are in the queue's own line.
        self._entering: dict[asyncio.Future[None], int] = {}
        self._entrance = ThreadPoolExecutor(_ENTERING, thread_name_prefix="quantkit requests")

    def outputs(self, batches: Iterable[np.ndarray], deadline: Optional[float] = None) -> Iterator[Outputs]:
        """See ``Runner``; batches are drawn as far ahead as keeps all busy.

        Raises:
            UserError: it is closed.
            QuantkitError: see ``Runner``, or no instance is left, and why.
        """
        pending: deque[Request] = deque()
        samples = 0
        try:
            for batch in batches:
                pending.append(Request(batch, deadline))
                samples += len(batch)
                self.queue.put(pending[-1])
                while pending and (samples > self._ahead or pending[0].future.done()):
                    samples -= len(pending[0].data)
                    yield pending.popleft().answer()
            while pending:
                yield pending.popleft().answer()
        finally:
            for request in pending:
                request.future.cancel()

    async def outputs_async(self, batches: Sequence[np.ndarray], deadline: Optional[float] = None) -> list[Outputs]:
        """See ``Runner``."""
        requests = [Request(batch, deadline) for batch in batches]
        try:
            patience = requests[0].patience if requests else None
            return await asyncio.wait_for(self._answers(requests), patience)
        except TimeoutError as error:
            raise overdue() from error
        finally:
            # Whoever cancels this gives up what nobody has begun to compute.
            for request in requests:
                request.future.cancel()

    async def _answers(self, requests: Sequence[Request]) -> list[Outputs]:
        loop = asyncio.get_running_loop()
        for request in requests:
            if self.queue.put_at_once(request):
                continue
            try:
                entered = loop.run_in_executor(self._entrance, self.queue.put, request)
            except RuntimeError as error:
                raise closed() from error
            self._entering[entered] = len(request.data)
            try:
                await entered
            finally:
                del self._entering[entered]
        return await asyncio.gather(*(asyncio.wrap_future(request.future) for request in requests))

    def status(self) -> RunnerStatus:
        """See ``Runner``."""
        found = self.queue.status()
        return replace(found, waiting=found.waiting + sum(list(self._entering.values())[_ENTERING:]))

    def close(self) -> None:
        """Fail the requests that are not answered yet, and all later ones."""
        self.queue.fail(closed())
        self._entrance.shutdown(wait=False, cancel_futures=True)
