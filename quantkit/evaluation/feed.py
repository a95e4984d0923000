"""Measuring whether images can be decoded as fast as a network reads, or learns from, them."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping
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


class Contestant(NamedTuple):
    """What is measured.

    Attributes:
        opened: opens a stream of batches without an end.
        consume: what is done with the samples of each.
        least: how many batches a turn has at least.
    """

    opened: Callable[[], Stream]
    consume: Consume
    least: int = 1


class Turn(NamedTuple):
    """Images per second, and the share of the time in which they were waited for."""

    rate: float
    waited: float


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
    first = read_first(lambda: stream(samples, workers), seconds * FIRST_PASS)
    images = look_at(samples, lambda sample: prepare(sample, preparation, input_shape))
    endless = repeated(samples, first.images)
    turns = in_turns(
        {
            "one_worker": Contestant(lambda: stream(endless, 1), len),
            "all_workers": Contestant(lambda: stream(endless, workers), len),
            "network": network_alone(run, ready),
            "together": Contestant(lambda: stream(endless, workers), run),
        },
        seconds * (1 - FIRST_PASS),
    )
    return Feed(
        images=images,
        distinct=first.images,
        batch=batch,
        workers=workers,
        first_pass=first.rate,
        from_storage=first.from_storage,
        waiting=median(turn.waited for turn in turns["together"]),
        **{contestant: rate_of(each) for contestant, each in turns.items()},
    )


def network_alone(run: Consume, ready: Prepared) -> Contestant:
    """A network, warmed up, that runs over one batch again and again."""
    for _ in range(_WARM_UP):
        run(ready.data)
    return Contestant(lambda: _repeated(ready), run)


def in_turns(contestants: Mapping[str, Contestant], seconds: float) -> dict[str, list[Turn]]:
    """Five turns of each contestant, in turns; the first batch of each turn only warms up.

    Args:
        contestants: what is measured.
        seconds: the time to measure.
    """
    turn = seconds / _ROUNDS / len(contestants)
    return interleaved({name: partial(_turn, each, turn) for name, each in contestants.items()}, _ROUNDS)


def rate_of(turns: Iterable[Turn]) -> Rate:
    """The images per second of turns."""
    return Rate(tuple(turn.rate for turn in turns))


def steady(stream: Stream, consume: Consume, ahead: int, seconds: float) -> list[Turn]:
    """Five turns one after the other, over one stream.

    Args:
        stream: batches without an end, which is closed.
        consume: what is done with the samples of each.
        ahead: how many batches are prepared before the first is asked for; they, and one more, do not count.
        seconds: the time to measure; each turn has at least one batch.
    """
    with closing(stream):
        for _ in range(ahead):
            next(stream)
        consume(next(stream).data)
        return [_timed(stream, consume, seconds / _ROUNDS, 1) for _ in range(_ROUNDS)]


def _repeated(batch: Prepared) -> Stream:
    while True:
        yield batch


def read_first(opened: Callable[[], Stream], seconds: float = math.inf) -> FirstPass:
    """Open a stream, which may read ahead at once, and read until it or the time, in seconds, ends."""
    count, before = 0, _storage_bytes()
    begun = perf_counter()
    with closing(opened()) as stream:
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


def _turn(contestant: Contestant, seconds: float) -> Turn:
    with closing(contestant.opened()) as stream:
        contestant.consume(next(stream).data)
        return _timed(stream, contestant.consume, seconds, contestant.least)


def _timed(stream: Stream, consume: Consume, seconds: float, least: int) -> Turn:
    """Consume batches for some time, and at least so many."""
    runs, images, waited = 0, 0, 0.0
    begun = now = perf_counter()
    while runs < least or now - begun < seconds:
        batch = next(stream)
        waited += perf_counter() - now
        consume(batch.data)
        runs, images = runs + 1, images + len(batch.data)
        now = perf_counter()
    return Turn(images / (now - begun), waited / (now - begun))


def look_at(samples: Iterable[Sample], prepare: Callable[[Sample], object]) -> Images:
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
