"""Measuring whether images can be decoded as fast as a network reads, or learns from, them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

import numpy as np

from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.data.batches import batches, prepare
from quantkit.data.preparation import Preparation
from quantkit.data.samples import Samples, repeated
from quantkit.evaluation.stream_rates import (
    Contestant,
    Images,
    Rate,
    Stream,
    in_turns,
    look_at,
    network_alone,
    rate_of,
    read_first,
)
from quantkit.ir.graph import Graph

FIRST_PASS = 0.2
"""The share of the time for reading the files for the first time."""

Verdict = Literal["fed", "starved", "not distinguishable"]


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
