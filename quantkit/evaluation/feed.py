"""Measuring whether images can be decoded as fast as a network reads, or learns from, them."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Literal, NamedTuple, Protocol

import numpy as np

from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.data.batches import batches, prepare
from quantkit.data.preparation import Preparation
from quantkit.data.samples import Sample, Samples, repeated
from quantkit.host.timing import interleaved
from quantkit.ir.graph import Graph

_ROUNDS = 5
_LOOKED_AT = 20

FIRST_PASS = 0.2
"""The share of the time for reading the files for the first time."""

_WARM_UP = 3

Verdict = Literal["fed", "starved", "not distinguishable"]


class Prepared(Protocol):
    """Samples of one run of a network."""

    @property
    def data(self) -> np.ndarray:
        """The samples as the network reads them."""


Stream = Generator[Prepared, None, None]
Consume = Callable[[np.ndarray], object]


@dataclass(frozen=True)
class Rate:
    """Images per second, measured once in each round."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median over the rounds."""
        return median(self.rounds)

    def exceeds(self, other: Rate) -> bool:
        """Whether each round was faster than every round of ``other``."""
        return min(self.rounds) > max(other.rounds)


@dataclass(frozen=True)
class Images:
    """The stored images; all figures are medians over the first ``looked_at`` of them.

    ``short_side`` is in pixels, None if the samples are preprocessed arrays. ``decoding`` and ``preprocessing`` are the
    time for one image in one thread, in ms.
    """

    looked_at: int
    short_side: int | None
    decoding: float
    preprocessing: float


class FirstPass(NamedTuple):
    """What reading images for the first time gave: images per second, their number, and bytes; see ``Feed``."""

    rate: float
    images: int
    from_storage: int | None


@dataclass(frozen=True)
class Feed:
    """How fast images are decoded, and how fast the network reads them.

    Attributes:
        images: the images that were read.
        distinct: the number of different images, which were read over and over.
        batch: the number of images in one run of the network.
        workers: the largest number of threads that decoded.
        first_pass: images per second when all workers read the files for the first time; later passes read them
            from the system's file cache.
        from_storage: the bytes that came from storage in the first pass, the others came from the file cache; None
            if the system does not tell.
        one_worker: decoding and preprocessing alone, in one background thread.
        all_workers: decoding and preprocessing alone, in all threads.
        network: the network alone.
        together: the network over the images, which all workers decode ahead.
        waiting: the share of the time that the network waited for images in ``together``, the median over rounds.
    """

    images: Images
    distinct: int
    batch: int
    workers: int
    first_pass: float
    from_storage: int | None
    one_worker: Rate
    all_workers: Rate
    network: Rate
    together: Rate
    waiting: float

    @property
    def lead(self) -> float:
        """The rate of decoding over the rate at which the network reads images, each measured alone."""
        return self.all_workers.median / self.network.median

    @property
    def verdict(self) -> Verdict:
        """``fed`` if every round decoded faster than any round of the network, ``starved`` if slower than any."""
        if self.all_workers.exceeds(self.network):
            return "fed"
        return "starved" if self.network.exceeds(self.all_workers) else "not distinguishable"


def measure_feed(
    graph: Graph,
    samples: Samples,
    preparation: Preparation,
    input_shape: tuple[int, ...],
    batch: int,
    workers: int,
    seconds: float = 20.0,
) -> Feed:
    """Measure decoding, the network, and both together, in turns so that disturbances affect all of them alike.

    Args:
        graph: a network with one input.
        samples: the images; those that are read in a fifth of the time are used over and over.
        preparation: how samples become its input.
        input_shape: the shape of one sample.
        batch: the number of images in one run of the network.
        workers: the largest number of threads that decode.
        seconds: the time to measure in all; each of five rounds runs each at least once.

    Raises:
        DataError: the samples cannot be used; see ``batches``.
        EngineError: the engine cannot run the network.
    """

    def stream(source: Samples, threads: int) -> Stream:
        return batches(source, preparation, input_shape, batch, workers=threads)

    (name,) = graph.inputs
    network = MxnetSession(graph, {name: (batch, *input_shape)})

    def run(data: np.ndarray) -> None:
        network.run({name: data})

    # Decoding one image also loads the libraries that it needs.
    (one,) = batches(samples, preparation, input_shape, 1, limit=1, workers=0)
    ready = replace(one, data=np.repeat(one.data, batch, axis=0))
    first = read_first(stream(samples, workers), seconds * FIRST_PASS)
    images = look_at(samples, lambda sample: prepare(sample, preparation, input_shape))
    endless = repeated(samples, first.images)
    return measure_streams(
        images, first, lambda threads: stream(endless, threads), ready, run, workers, seconds * (1 - FIRST_PASS)
    )


def measure_streams(
    images: Images,
    first: FirstPass,
    again: Callable[[int], Stream],
    ready: Prepared,
    run: Consume,
    workers: int,
    seconds: float,
) -> Feed:
    """Measure preparing, a network, and both together, in turns.

    Args:
        images: those that are read.
        first: what reading them for the first time gave.
        again: given a number of threads, the same images in batches, without end.
        ready: a batch for the network alone.
        run: runs the network over the samples of a batch.
        workers: the largest number of threads that prepare.
        seconds: the time to measure; each of five rounds runs each at least once.
    """
    for _ in range(_WARM_UP):
        run(ready.data)
    contestants: dict[str, tuple[Callable[[], Stream], Consume]] = {
        "one_worker": (lambda: again(1), len),
        "all_workers": (lambda: again(workers), len),
        "network": (lambda: _repeated(ready), run),
        "together": (lambda: again(workers), run),
    }
    turn = seconds / _ROUNDS / len(contestants)
    turns = interleaved({name: partial(_turn, *each, turn) for name, each in contestants.items()}, _ROUNDS)
    return Feed(
        images=images,
        distinct=first.images,
        batch=len(ready.data),
        workers=workers,
        first_pass=first.rate,
        from_storage=first.from_storage,
        waiting=median(waited for _, waited in turns["together"]),
        **{contestant: Rate(tuple(rate for rate, _ in values)) for contestant, values in turns.items()},
    )


def _repeated(batch: Prepared) -> Stream:
    while True:
        yield batch


def read_first(stream: Stream, seconds: float = math.inf) -> FirstPass:
    """Read until the stream or the time, in seconds, ends."""
    count, before = 0, _storage_bytes()
    with closing(stream):
        begun = perf_counter()
        for batch in stream:
            count += len(batch.data)
            if perf_counter() - begun >= seconds:
                break
        rate = count / (perf_counter() - begun)
    after = _storage_bytes()
    return FirstPass(rate, count, None if before is None or after is None else after - before)


def _storage_bytes() -> int | None:
    """The bytes that this process has read from storage so far; see proc(5)."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("read_bytes:")), None)


def _turn(opened: Callable[[], Stream], consume: Consume, seconds: float) -> tuple[float, float]:
    """Images per second, and the share of the time spent waiting for them; the first batch only warms up."""
    count, waited = 0, 0.0
    with closing(opened()) as stream:
        consume(next(stream).data)
        begun = now = perf_counter()
        while now - begun < seconds:
            batch = next(stream)
            waited += perf_counter() - now
            consume(batch.data)
            count += len(batch.data)
            now = perf_counter()
    return count / (now - begun), waited / (now - begun)


def look_at(samples: Samples, prepare: Callable[[Sample], object]) -> Images:
    """Time decoding and ``prepare`` of the first few images in this thread."""
    decoding, preprocessing, sides = [], [], []
    begun = perf_counter()
    for sample in islice(samples, _LOOKED_AT):
        decoded = perf_counter()
        prepare(sample)
        if sample.image.dtype == np.uint8:
            sides.append(min(sample.image.shape[:2]))
        decoding.append(decoded - begun)
        begun = perf_counter()
        preprocessing.append(begun - decoded)
    side = int(median(sides)) if sides else None
    return Images(len(decoding), side, median(decoding) * 1e3, median(preprocessing) * 1e3)
