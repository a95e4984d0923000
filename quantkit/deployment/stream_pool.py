"""Stream pool: a network that runs several times at once in this process, for the requests of all threads."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Optional

import numpy as np

from quantkit.bundle.bundle import Bundle
from quantkit.deployment.network import RunningNetwork, open_streams
from quantkit.deployment.queued_requests import QueuedRequests
from quantkit.deployment.request_queue import Piece, RequestQueue
from quantkit.deployment.runner import Outputs, RunnerStatus
from quantkit.deployment.streams import Streams

# Seconds between looks whether there will be no more requests.
_LOOK_EVERY = 1.0

# One caller has this many batches of each stream waiting or computed.
_AHEAD = 2


class StreamPool:
    """Streams of a bundle's network; any thread may submit requests.

    Attributes:
        engine: the engine's name.
        quantizer: None; engines with streams read float32.
        step: None; states stay with their caller.
        streams: how many there are.
        instances: 0; they are in this process.
    """

    step = None
    quantizer = None
    instances = 0

    def __init__(self, bundle: Bundle, engine: str, streams: Streams) -> None:
        """Load the network.

        Raises:
            UserError: the engine has no streams, or needs an ONNX file and the bundle holds none.
            QuantkitError: the network cannot run there.
        """
        self.engine, self.streams = engine, streams.count
        self._waits_for_others, self._runs_singly = streams.window > 0, streams.batch == 1
        number = self.streams
        self._idle: SimpleQueue[RunningNetwork] = SimpleQueue()
        for network in open_streams(bundle, engine, number, streams.threads):
            _warm(network, streams.batch, bundle.sample.input)
            self._idle.put(network)
        self._requests = QueuedRequests(number, streams.batch, _AHEAD * number * streams.batch)
        self._threads = [
            Thread(target=_work, args=(self._idle, self._requests.queue, streams), name="quantkit stream", daemon=True)
            for _ in range(number)
        ]
        self._finalizer = weakref.finalize(self, _close, os.getpid(), self._requests)
        for thread in self._threads:
            thread.start()

    def outputs(self, batches: Iterable[np.ndarray], deadline: Optional[float] = None) -> Iterator[Outputs]:
        """See ``QueuedRequests``; a single sample is computed in the caller's own thread if a stream is idle.

        Handing it to another thread and back would take a large share of the time of a small network. Where batches are
        of one sample, the caller waits for a stream itself. Where there is a deadline, it must be able to leave, and
        where there is a window, requests wait for others.
        """
        left = iter(batches)
        first = [*islice(left, 1)]
        if deadline is None and not self._waits_for_others and first and len(first[0]) == 1:
            first += islice(left, 1)
            if len(first) == 1 and (answer := self._at_once(first[0])) is not None:
                yield answer
                return
        yield from self._requests.outputs(chain(first, left), deadline)

    def _at_once(self, sample: np.ndarray) -> Optional[Outputs]:
        """The outputs for a sample; None if it has to wait."""
        try:
            network = self._idle.get(block=self._runs_singly)
        except Empty:
            return None
        try:
            return network.run(sample) if self._requests.queue.pass_by(len(sample)) else None
        finally:
            self._idle.put(network)

    async def outputs_async(self, batches: Sequence[np.ndarray], deadline: Optional[float] = None) -> list[Outputs]:
        """See ``Runner``."""
        return await self._requests.outputs_async(batches, deadline)

    def status(self) -> RunnerStatus:
        """See ``Runner``."""
        return self._requests.status()

    def close(self) -> None:
        """End the streams; requests that are not answered yet fail."""
        self._finalizer()
        for thread in self._threads:
            thread.join()


def _warm(network: RunningNetwork, batch: int, sample: np.ndarray) -> None:
    """Run what engines prepare a network for, once and alone.

    If its first runs in a process are at the same time, OpenVINO waits for ever: one of them makes a table of types,
    for which it needs Python's lock, while the other has that and waits for the table.
    """
    for size in {1, batch}:
        network.run(np.resize(sample, (size, *sample.shape[1:])))


def _work(idle: SimpleQueue[RunningNetwork], queue: RequestQueue, streams: Streams) -> None:
    while queue.wait(_LOOK_EVERY):
        network = idle.get()
        try:
            pieces = queue.take(streams.batch, streams.window, 0.0) or []
            try:
                if pieces:
                    _compute(network, pieces)
            except Exception as error:  # whoever waits must not wait for ever, whatever it is
                queue.put_back(pieces, error)
        finally:
            idle.put(network)


def _compute(network: RunningNetwork, pieces: Sequence[Piece]) -> None:
    """Answer pieces of requests that are computed together."""
    outputs = network.run(pieces[0].data if len(pieces) == 1 else np.concatenate([piece.data for piece in pieces]))
    place = 0
    for piece in pieces:
        piece.request.put(piece.start, [output[place : place + piece.size] for output in outputs])
        place += piece.size


def _close(process: int, requests: QueuedRequests) -> None:
    # A fork that ends is not the owner. Threads are not joined: the garbage collector may call this in one of them.
    if os.getpid() == process:
        requests.close()
