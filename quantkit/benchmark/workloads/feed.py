"""Whether samples can be decoded or loaded as fast as a network reads them: measurement and remedies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Literal, Optional

from quantkit.backends.mxnet.checkpoint import read_checkpoint
from quantkit.benchmark.results.cell_warnings import UNTOLD, disturbing
from quantkit.benchmark.workloads.forms import Forms
from quantkit.data.preprocess import Preprocess
from quantkit.data.sample_noun import SampleNoun, sample_noun
from quantkit.data.samples import Samples
from quantkit.evaluation.feed import Feed, measure_feed
from quantkit.evaluation.network import Network
from quantkit.host.load import with_load_of_others
from quantkit.host.threads import worker_threads
from quantkit.models.model import Model
from quantkit.units import megabytes, percent

SECONDS = 20.0
"""The default duration of a measurement."""

# Stored images whose side is this many times what the network needs are worth shrinking.
_OVERSIZED = 1.5

COLD = 0.8
"""Below this share of the rate of later readings, or of the network, the advice mentions the first reading."""

# Below this share of the slower one's rate alone, it mentions the common run.
_TOGETHER = 0.9

FeedingForm = Literal["bundle", "quantized", "trained"]


@dataclass(frozen=True)
class Feeding:
    """A network and its samples, measured.

    Attributes:
        network: what was measured.
        form: a ``bundle`` as it is, a network ``quantized`` for this, or one that was ``trained``.
        data: the samples' name.
        feed: the figures.
        advice: what they mean beyond the verdict, and the remedies where the network starves.
        warnings: who disturbed the measurement.
    """

    network: Network
    form: FeedingForm
    data: str
    feed: Feed
    advice: tuple[str, ...]
    warnings: tuple[str, ...]


def measure_feeding(
    network: Network, form: FeedingForm, samples: Samples, batch: int, seconds: float = SECONDS
) -> Feeding:
    """Measure how fast samples can be loaded and how fast a network reads them; see ``evaluation.feed.measure_feed``.

    Args:
        network: what reads.
        form: what it was made from.
        samples: what it reads.
        batch: samples in one run of the network.
        seconds: how long to measure in all.

    Raises:
        DataError: the samples cannot be used.
        EngineError: the engine cannot run the network.
    """
    measure = partial(
        measure_feed, network.graph, samples, network.preparation, network.input_shape, batch, worker_threads(), seconds
    )
    feed, warnings = with_warnings(measure)
    advised = advice(feed, network.preprocess, sample_noun(network.input_shape))
    return Feeding(network, form, samples.name, feed, tuple(advised), warnings)


def with_warnings(measure: Callable[[], Feed]) -> tuple[Feed, tuple[str, ...]]:
    """A measurement, and warnings about those who disturbed it."""
    feed, others = with_load_of_others(measure, os.sched_getaffinity(0))
    return feed, (UNTOLD,) if others is None else tuple(disturbing(others.stolen, others.busy))


def quantized(model: Model, samples: Samples, tell: Callable[[str], None]) -> Network:
    """The INT8 form of an FP32 network, made as the benchmark makes it and kept where it keeps them.

    Raises:
        DataError: the samples cannot be used to calibrate with.
        QuantkitError: the network cannot be quantized.
    """
    made = Forms(model, samples, tell).stored("int8").checkpoint.files
    graph = read_checkpoint(made["symbol"], made["params"])
    return Network(
        model.name,
        "int8",
        graph,
        model.input_shape,
        model.preprocess,
        model.source.weights,
        vocabulary=model.vocabulary,
        joined=model.joined,
    )


def advice(feed: Feed, preprocess: Optional[Preprocess], noun: SampleNoun = "image") -> list[str]:
    """What the figures mean beyond the verdict, and the remedies where the network starves."""
    texts = []
    stored = feed.images.short_side
    if feed.from_storage and feed.first_pass < COLD * min(feed.all_workers.rounds):
        enough = "too few" if feed.first_pass < min(feed.network.rounds) else "enough"
        text = (
            f"the first reading, with {megabytes(feed.from_storage)} from storage, gave {feed.first_pass:.0f} "
            f"{noun}s/s, {enough} for the network; cached files gave {feed.all_workers.median:.0f}"
        )
        if noun == "image":
            text += "; where the images are many small files, try them packed into one .rec file"
        texts.append(text)
    texts += competing(feed, noun)
    if feed.verdict == "starved" and stored is not None:
        wanted = ceil(feed.network.median / feed.one_worker.median)
        if wanted > feed.workers:
            texts.append(
                f"at least {wanted} decoding workers would have to run at once, each as fast as one alone, to keep up"
            )
        texts += oversized(feed, None if preprocess is None else preprocess.resize or preprocess.crop)
        texts.append("preprocess once: float32 arrays in an .npz need no decoding")
    return texts


def competing(feed: Feed, noun: SampleNoun) -> Iterator[str]:
    """What it means if both at once are slower than the slower one alone."""
    alone = min(feed.all_workers, feed.network, key=lambda rate: rate.median)
    slower = alone.median
    if alone.exceeds(feed.together) and feed.together.median < _TOGETHER * slower:
        longer = feed.network.median * (1 - feed.waiting) / feed.together.median
        yield (
            f"both at once reach {percent(feed.together.median / slower)} of what the slower one reaches alone: the "
            f"network waited for {noun}s {percent(feed.waiting)} of the time, and its runs took {longer:.2g} times as "
            "long as alone; whether they compete for cores shows when the network gets fewer threads: set "
            "OMP_NUM_THREADS and measure again"
        )


def oversized(feed: Feed, needed: Optional[int]) -> Iterator[str]:
    """That stored images are much larger than the pixels that are ``needed`` of their short side, if they are."""
    stored = feed.images.short_side
    if stored is not None and needed is not None and stored > _OVERSIZED * needed:
        yield f"store the images smaller: their short side is {stored} pixels, {needed} are needed"
