"""Stream pool: a network that runs several times at once in this process, for the requests of all threads."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from threading import Thread
from typing import Optional

import numpy as np

from quantkit.bundle.bundle import Bundle
from quantkit.deployment.network import RunningNetwork, open_streams
from quantkit.deployment.queued_requests import QueuedRequests
from quantkit.deployment.request import Piece
from quantkit.deployment.request_queue import RequestQueue
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
        self.engine, self.streams, self._window = engine, streams.count, streams.window
        number = self.streams
        self._idle = open_streams(bundle, engine, number, streams.threads)
        for network in self._idle:
            _warm(network, streams.batch, bundle.sample.input)
        self._requests = QueuedRequests(number, streams.batch, _AHEAD * number * streams.batch, number)
        given = self._idle, self._requests.queue, streams
        self._threads = [Thread(target=_work, args=given, name="quantkit stream", daemon=True) for _ in range(number)]
        self._finalizer = weakref.finalize(self, _close, os.getpid(), self._requests)
        for thread in self._threads:
            thread.start()

    def outputs(self, batches: Iterable[np.ndarray], deadline: Optional[float] = None) -> Iterator[Outputs]:
        """See ``QueuedRequests``; a single sample is computed in the caller's own thread if a stream is idle.

        Handing it to another thread and back would take a large share of the time of a small network. Where there is a
        deadline, the caller must be able to leave, and where there is a window, requests wait for others.
        """
        left = iter(batches)
        first = [*islice(left, 1)]
        if deadline is None and not self._window and first and len(first[0]) == 1:
            first += islice(left, 1)
            if len(first) == 1 and self._requests.queue.pass_by(1):
                yield self._computed(first[0])
                return
        yield from self._requests.outputs(chain(first, left), deadline)

    def _computed(self, batch: np.ndarray) -> Outputs:
        """The outputs for a batch that a place was taken for."""
        with _place(self._idle, self._requests.queue) as network:
            return network.run(batch)

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


def _work(idle: list[RunningNetwork], queue: RequestQueue, streams: Streams) -> None:
    while (pieces := queue.take(streams.batch, streams.window, _LOOK_EVERY)) is not None:
        if pieces:
            with _place(idle, queue) as network:
                try:
                    _compute(network, pieces)
                except Exception as error:  # whoever waits must not wait for ever, whatever it is
                    queue.put_back(pieces, error)


@contextmanager
def _place(idle: list[RunningNetwork], queue: RequestQueue) -> Iterator[RunningNetwork]:
    """The network of a place that was taken, of which there are as many as idle networks; it is given back."""
    network = idle.pop()
    try:
        yield network
    finally:
        idle.append(network)
        queue.give_back()


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
