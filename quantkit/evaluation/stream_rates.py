"""How fast streams of samples are prepared, and how fast a network consumes them: rates, and how they are measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np

from quantkit.data.samples import Sample
from quantkit.host.timing import interleaved

_ROUNDS = 5
_LOOKED_AT = 20
_WARM_UP = 3


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
