"""Pool: instances of a network that share the requests of all threads."""

from __future__ import annotations

import asyncio
import os
import time
import warnings
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from itertools import chain, cycle
from threading import Lock, Thread
from typing import Optional

import numpy as np

from quantkit.benchmark.placement.proof import problem, prove
from quantkit.bundle.bundle import Bundle
from quantkit.deployment.instance import Instance, InstanceLaunch
from quantkit.deployment.instances import Instances
from quantkit.deployment.request_queue import Piece, Request, RequestQueue, closed
from quantkit.deployment.runner import Outputs, overdue
from quantkit.deployment.slots import SLOTS
from quantkit.errors import InstanceError, QuantkitError, UserError

# How often in a row an instance is started again before it is given up, and the pause before each time in seconds.
_RESTARTS = 3
_PAUSE = 0.5

# So many samples may wait for each instance, or four of its batches if they are more.
_WAITING = 64


class MisplacedInstanceWarning(UserWarning):
    """An instance runs on other hardware threads than it should, or its memory is elsewhere."""


class Pool:
    """Instances of a bundle's network.

    Any thread may submit requests. An instance that is lost, or gives no answer, is replaced. What it had begun to
    compute is computed again, and fails if an instance is lost with it again.

    Attributes:
        engine: the engine's name.
        placements: of the instances.
    """

    def __init__(self, bundle: Bundle, engine: str, instances: Instances) -> None:
        """Start the instances; all have loaded the network when this returns.

        Raises:
            UserError: there is no room for them.
            QuantkitError: the network cannot run there.
            InstanceError: an instance cannot be started.
        """
        self.engine, self.placements = engine, instances.placements()
        launches = [InstanceLaunch(bundle, engine, each, instances.batch) for each in self.placements]
        self._queue = RequestQueue(max(_WAITING, 4 * instances.batch) * len(launches), len(launches))
        self._members = [_Member(launch, self._queue, instances.window) for launch in launches]
        self._finalizer = weakref.finalize(self, _close, os.getpid(), self._queue, self._members)
        try:
            for member in self._members:
                member.wait()
        except BaseException:
            self.close()
            raise
        for wrong in self._misplaced():
            warnings.warn(f"an instance is not in its place: {wrong}", MisplacedInstanceWarning, stacklevel=4)

    def submit(self, batch: np.ndarray, deadline: Optional[float] = None) -> Future[Outputs]:
        """The outputs for a batch of any size, float32, as soon as they are known.

        It waits while too many requests are waiting. Until an instance has begun with it, the request can be given up
        (``Future.cancel``).

        Args:
            batch: which must not change until then.
            deadline: by ``time.monotonic``; None for none.

        Raises:
            DeadlineExceeded: the deadline has passed.
            UserError: the pool is closed.
            EngineError: no instance is left.
        """
        request = Request(batch, deadline)
        self._queue.put(request)
        return request.future

    @property
    def instances(self) -> int:
        """See ``Runner``."""
        return len(self._members)

    def outputs(self, batches: Iterable[np.ndarray], deadline: Optional[float] = None) -> Iterator[Outputs]:
        """See ``Runner``; batches are drawn as far ahead as keeps the instances busy."""
        pending: deque[Future[Outputs]] = deque()
        try:
            for batch in batches:
                pending.append(self.submit(batch, deadline))
                while pending and (len(pending) > len(self._members) or pending[0].done()):
                    yield answer_of(pending.popleft(), deadline)
            while pending:
                yield answer_of(pending.popleft(), deadline)
        finally:
            for future in pending:
                future.cancel()

    async def outputs_async(self, batches: Sequence[np.ndarray], deadline: Optional[float] = None) -> list[Outputs]:
        """See ``Runner``."""
        submitted = await asyncio.to_thread(lambda: [self.submit(batch, deadline) for batch in batches])
        patience = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            # Whoever cancels this gives the requests up.
            return await asyncio.wait_for(asyncio.gather(*map(asyncio.wrap_future, submitted)), patience)
        except TimeoutError as error:
            raise overdue() from error

    def step(self, batch: np.ndarray, states: Mapping[str, np.ndarray]) -> Outputs:
        """States stay with their caller.

        Raises:
            UserError: always.
        """
        raise UserError("instances hand on no states; load the bundle without instances")

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


class _Member:
    """An instance, whichever process it is at the moment, and the thread that hands it batches."""

    def __init__(self, launch: InstanceLaunch, queue: RequestQueue, window: float) -> None:
        self._launch, self._queue, self._window = launch, queue, window
        self._instance: Optional[Instance] = None
        self._loaded: Future[None] = Future()
        self._closed = False
        self._lock = Lock()
        # Its processes end with it, and it with the interpreter.
        self._thread = Thread(target=self._work, name="quantkit instance", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """The process's number; 0 while there is none."""
        instance = self._instance
        return 0 if instance is None else instance.pid

    def wait(self) -> None:
        """Return when the network is loaded for the first time.

        Raises:
            QuantkitError: it cannot be.
        """
        self._loaded.result()

    def close(self) -> None:
        """End it; it may still live for a moment."""
        with self._lock:
            self._closed = True
            if self._instance is not None:
                self._instance.kill()

    def join(self) -> None:
        """Return when it has ended."""
        self._thread.join()

    def _work(self) -> None:
        try:
            self._keep()
        except Exception as error:  # whatever it is, callers must hear of it
            if not self._loaded.done():
                self._loaded.set_exception(error)
            self._queue.leave(error)

    def _keep(self) -> None:
        """Replace the process whenever it is lost, until this is closed.

        Raises:
            QuantkitError: it cannot be started or load the network: the first time, or again and again.
        """
        failures = 0
        while True:
            try:
                if (instance := self._start()) is None:
                    return
                instance.wait()
                failures = 0
                if not self._loaded.done():
                    self._loaded.set_result(None)
                self._serve(instance)
            except QuantkitError:
                failures += 1
                if not self._loaded.done() or failures > _RESTARTS:
                    raise
                time.sleep(_PAUSE)
            finally:
                self._end()

    def _start(self) -> Optional[Instance]:
        """A new process; None if this is closed."""
        with self._lock:
            self._instance = None if self._closed else Instance(self._launch)
            return self._instance

    def _end(self) -> None:
        with self._lock:
            instance, self._instance = self._instance, None
        if instance is not None:
            instance.close()

    def _serve(self, instance: Instance) -> None:
        """Hand an instance batches until it is lost, or there will be no more."""
        begun: deque[tuple[int, list[Piece]]] = deque()
        slots = cycle(range(SLOTS))
        largest = self._launch.batch
        try:
            while True:
                pieces: list[Piece] = []
                if not begun:
                    if not (pieces := self._queue.take(largest, self._window)):
                        return
                elif len(begun) < SLOTS and not begun[0][1][0].lost:
                    pieces = self._queue.take_ahead(largest)
                if pieces:
                    slot = next(slots)
                    begun.append((slot, pieces))
                    instance.begin(slot, _fill(instance.slots.inputs[slot], pieces))
                else:
                    self._finish(instance, *begun[0])
                    begun.popleft()
        except InstanceError as error:
            self._queue.put_back(chain.from_iterable(pieces for _, pieces in begun), error)

    def _finish(self, instance: Instance, slot: int, pieces: list[Piece]) -> None:
        """Answer the pieces of a slot when they are computed."""
        error = instance.end()
        if error is not None:
            self._queue.put_back(pieces, error)
            return
        place = 0
        for piece in pieces:
            stop = place + piece.stop - piece.start
            piece.request.put(piece.start, [output[place:stop] for output in instance.slots.outputs[slot]])
            place = stop


def answer_of(future: Future[Outputs], deadline: Optional[float] = None) -> Outputs:
    """What answers a request; one that is overdue is given up.

    Raises:
        DeadlineExceeded: there was no answer until then.
        QuantkitError: why it could not be computed.
    """
    try:
        return future.result(None if deadline is None else max(0.0, deadline - time.monotonic()))
    except TimeoutError as error:
        future.cancel()
        raise overdue() from error


def _fill(room: np.ndarray, pieces: Sequence[Piece]) -> int:
    """Put the samples of pieces into a slot, one after the other; how many there are."""
    place = 0
    for piece in pieces:
        stop = place + piece.stop - piece.start
        room[place:stop] = piece.data
        place = stop
    return place


def _close(process: int, queue: RequestQueue, members: Sequence[_Member]) -> None:
    # A fork that ends is not the owner.
    if os.getpid() != process:
        return
    queue.fail(closed())
    for member in members:
        member.close()
    for member in members:
        member.join()
