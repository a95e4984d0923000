"""Pool: instances of a network that share the requests of all threads."""

from __future__ import annotations

import asyncio
import os
import warnings
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Optional

import numpy as np

from quantkit.benchmark.placement.proof import problem, prove
from quantkit.bundle.bundle import Bundle
from quantkit.deployment.instance import InstanceLaunch
from quantkit.deployment.instances import Instances
from quantkit.deployment.kept_instance import InstanceWarning, KeptInstance
from quantkit.deployment.request_queue import Request, RequestQueue, closed
from quantkit.deployment.runner import Outputs, overdue
from quantkit.deployment.slots import SLOTS
from quantkit.errors import InstanceError

# So many samples may wait for each instance, or four of its batches if they are more.
_WAITING = 64

# So many threads wait for room for requests of event loops.
_ENTERING = 4


class Pool:
    """Instances of a bundle's network.

    Any thread may submit requests. An instance that is lost, or gives no answer, is replaced. What it had begun to
    compute is computed again, and fails if an instance is lost with it again.

    Attributes:
        engine: the engine's name.
        placements: of the instances.
        quantizer: what makes batches integers, which instances then read alone; None: they read float32.
        step: None; states stay with their caller.
    """

    step = None

    def __init__(self, bundle: Bundle, engine: str, instances: Instances) -> None:
        """Start the instances; all have loaded the network when this returns.

        Raises:
            UserError: there is no room for them, or their runtime is not installed.
            QuantkitError: the network cannot run there.
            InstanceError: an instance cannot be started.
        """
        self.engine, self.placements = engine, instances.placements()
        number, directory = len(self.placements), bundle.directory.absolute()
        form, runtime = (bundle, directory, engine), instances.runtime
        launches = [InstanceLaunch(*form, each, instances.batch, runtime) for each in self.placements]
        # Of each instance what is computed, and what is ready.
        self._ahead = SLOTS * sum(launch.most for launch in launches)
        self._queue = RequestQueue(max(_WAITING, 4 * instances.batch) * number, number)
        self._entrance = ThreadPoolExecutor(_ENTERING, thread_name_prefix="quantkit requests")
        self._members: list[KeptInstance] = []
        self._finalizer = weakref.finalize(self, _close, os.getpid(), self._queue, self._entrance, self._members)
        try:
            for launch in launches:
                self._members.append(KeptInstance(launch, self._queue, instances.window))
            loaded = [member.wait() for member in self._members]
        except BaseException:
            self.close()
            raise
        self.quantizer = loaded[0]
        for wrong in self._misplaced():
            warnings.warn(f"an instance is not in its place: {wrong}", InstanceWarning, stacklevel=4)

    @property
    def instances(self) -> int:
        """See ``Runner``."""
        return len(self.placements)

    def outputs(self, batches: Iterable[np.ndarray], deadline: Optional[float] = None) -> Iterator[Outputs]:
        """See ``Runner``; batches are drawn as far ahead as keeps the instances busy.

        Raises:
            UserError: the pool is closed.
            QuantkitError: see ``Runner``, or no instance is left, and why.
        """
        pending: deque[Request] = deque()
        samples = 0
        try:
            for batch in batches:
                pending.append(Request(batch, deadline))
                samples += len(batch)
                self._queue.put(pending[-1])
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
            await loop.run_in_executor(self._entrance, self._queue.put, request)
        return await asyncio.gather(*(asyncio.wrap_future(request.future) for request in requests))

    def pids(self) -> list[int]:
        """The numbers of the instances' processes."""
        return [member.pid for member in self._members]

    def close(self) -> None:
        """End the instances; requests that are not answered yet fail."""
        self._finalizer()

    def _misplaced(self) -> Iterator[str]:
        """Why instances are not in their places, as /proc tells."""
        # With all memory alike, it does not matter whether the kernel tells where pages are.
        apart = len({placement.nodes for placement in self.placements}) > 1
        for pid, placement in zip(self.pids(), self.placements):
            # One that was lost meanwhile is on its way to its place.
            with suppress(InstanceError):
                proven = prove(pid, placement)
                if wrong := problem(proven, placement if apart else replace(placement, nodes=None), openmp=False):
                    yield wrong


def _close(process: int, queue: RequestQueue, entrance: ThreadPoolExecutor, members: Sequence[KeptInstance]) -> None:
    # A fork that ends is not the owner.
    if os.getpid() != process:
        return
    queue.fail(closed())
    entrance.shutdown(wait=False, cancel_futures=True)
    for member in members:
        member.close()
    for member in members:
        member.join()
