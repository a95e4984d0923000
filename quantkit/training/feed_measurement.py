"""Whether samples can be prepared as fast as a network learns from them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from statistics import fmean, median
from typing import Optional

import numpy as np

from quantkit.benchmark.workloads.feed import COLD, SECONDS, Feeding, competing, oversized, with_warnings
from quantkit.data.kept_samples import KeptSamples, size_kept
from quantkit.data.left_out import LeftOut, in_order
from quantkit.data.sample_noun import SampleNoun, sample_noun
from quantkit.data.samples import Sample, Samples, skipping, take
from quantkit.data.sources import DataSource, load_data
from quantkit.errors import DataError, SampleError, UserError
from quantkit.evaluation import stream_rates as rates
from quantkit.evaluation.feed import FIRST_PASS
from quantkit.evaluation.feed import Feed as Measured
from quantkit.evaluation.network import Network
from quantkit.host.threads import MOST_DECODERS
from quantkit.models.model import Model
from quantkit.training.communication import Alone
from quantkit.training.config import TrainingConfig
from quantkit.training.feed import Feed, TrainingBatch, bytes_kept, check_batch, readable_in_any_order
from quantkit.training.feed_workers import FeedWorkers, feed_workers
from quantkit.training.finetune import trainable_classifier, with_new_classes
from quantkit.training.head import classes_of
from quantkit.training.network import TrainedNetwork
from quantkit.training.spinning import load_for_training
from quantkit.units import per_second, percent

# Shares of the time: for turns of each alone, and for both together. The rest is for the first epoch.
_ALONE, _TOGETHER = 0.5, 0.3

# Batches of the first epoch for each worker, if there are as many: all then work for most of the time.
_FOR_EACH = 4

# More epochs than any measurement lasts.
_ENDLESS = 10**9

# Seconds below which no sample is prepared.
_QUICKEST = 1e-6


@dataclass(frozen=True)
class TrainingFeeding(Feeding):
    """A training and its samples, measured.

    Attributes:
        config: how the network would be trained.
        classes: those of the network.
        samples: how many there are.
        kept: the share of them that a training keeps in memory once they were read.
        held: whether they can only be read one after another, and so were in memory before.
        left_out: those that were read and could not be used.
    """

    config: TrainingConfig
    classes: int
    samples: int
    kept: float
    held: bool
    left_out: tuple[LeftOut, ...]


def measure_training_feed(
    model: Model,
    data: DataSource,
    config: TrainingConfig,
    *,
    classes: Optional[int] = None,
    workers: Optional[int] = None,
    skip_bad: int = 0,
    seconds: float = SECONDS,
) -> TrainingFeeding:
    """Measure how fast samples are prepared for a training, how fast a network learns from them, and both together.

    As many samples as the workers prepare in a fifth of the time are read: once, as in the first epoch, then over and
    over, as in later ones: from memory as far as a training keeps them there. They need no labels: all classes are the
    target, to the same share. Both together are measured once the batches are used up that were prepared before.

    Args:
        model: a classifier.
        data: what it would learn from, as for ``finetune``.
        config: the batch, the optimizer, the augmentation, and what is frozen.
        classes: how many classes the samples have; None: the network keeps its own.
        workers: threads that prepare samples, from 1 up; None: as for ``finetune``.
        skip_bad: how many samples may be left out.
        seconds: how long to measure, at least; it takes at least 19 steps, and 4 batches of each worker.

    Raises:
        ModelError: the network is no classifier that can be trained.
        DataError: the samples cannot be used, or are fewer than a batch.
        UserError: something to be frozen is not there, nothing is left to learn, or there are no workers.
        EngineError: the engine cannot train the network.
    """
    if workers == 0:
        raise UserError("workers is 0, and the network itself would wait while samples are prepared; give at least 1")
    load_for_training(data)
    loaded = skipping(load_data(data), skip_bad)
    base = with_new_classes(model, classes, (), config.seed)
    network, threads = trainable_classifier(base, config), feed_workers(workers, loaded, base.input_shape)
    held = not (loaded.independent and loaded.size)
    samples = readable_in_any_order(loaded) if held else loaded
    check_batch(samples, config.batch_size)
    feed = Feed(samples, base, config, classes_of(base), threads.number, labelled=False)
    images, size = _looked_at(feed)
    kept = 1.0 if held else min(1.0, bytes_kept(1) / (size * len(samples)))
    chosen = _chosen(samples, images, config.batch_size, threads.number, seconds * FIRST_PASS)
    if not held:
        most = bytes_kept(1) if kept == 1.0 else int(kept * size * len(chosen))
        chosen = replace(chosen, read=KeptSamples(chosen, most).read)
    feed = replace(feed, samples=chosen)
    found, warnings = with_warnings(
        lambda: _measured(feed, TrainedNetwork(network, config, feed.steps, Alone()), images, seconds)
    )
    shown = Network(base.name, "fp32", base.graph, base.input_shape, base.preprocess, base.source.weights)
    advice = tuple(_advice(found, base, config, threads, kept, held))
    made = config, feed.classes, len(samples), kept, held, in_order(feed.left_out)
    return TrainingFeeding(shown, "trained", loaded.name, found, advice, warnings, *made)


def _looked_at(feed: Feed) -> tuple[rates.Images, float]:
    """What the first few samples are, and the bytes that one of them takes in memory."""
    sizes: list[int] = []
    positions = count()

    def varied(sample: Sample) -> None:
        sizes.append(size_kept(sample))
        # The feed tells of those that cannot be used.
        with suppress(SampleError):
            feed.varied(replace(sample, label=None), 1, next(positions))

    return rates.look_at(_readable(feed.samples), varied), fmean(sizes)


def _readable(samples: Samples) -> Iterator[Sample]:
    """The samples that can be read, in their order.

    Raises:
        DataError: more cannot be read than may be left out, or none can.
    """
    left_out, none = 0, True
    for read in samples.deferred():
        try:
            sample = read()
        except SampleError:
            left_out += 1
            if left_out > samples.skip_bad:
                raise
            continue
        none = False
        yield sample
    if none:
        raise DataError(f"no sample of {samples.name} can be read; replace them")


def _chosen(samples: Samples, images: rates.Images, batch: int, workers: int, seconds: float) -> Samples:
    """Whole batches of samples, as many as so many workers prepare in the time, and some for each worker."""
    each = max(_QUICKEST, (images.decoding + images.preprocessing) / 1e3)
    most = min(len(samples), max(_FOR_EACH * workers * batch, int(workers * seconds / each)))
    return take(samples, most - most % batch)


def _measured(feed: Feed, network: TrainedNetwork, images: rates.Images, seconds: float) -> Measured:
    ready, workers = _ready(feed), feed.workers

    def learn(data: np.ndarray) -> None:
        network.step(data, ready.targets)
        # Else the rest of the step would look like waiting for the next batch.
        network.wait()

    def again(number: int) -> rates.Stream:
        return replace(feed, workers=number).epochs(2, _ENDLESS)

    first = rates.read_first(lambda: feed.epochs(1, 1))
    contestants = {
        # Workers that begin together end together: a turn has a batch of each.
        "all_workers": rates.Contestant(lambda: again(workers), len, workers),
        "network": rates.network_alone(learn, ready),
    }
    if workers > 1:
        contestants["one_worker"] = rates.Contestant(lambda: again(1), len)
    turns = rates.in_turns(contestants, seconds * _ALONE)
    turns.setdefault("one_worker", turns["all_workers"])
    # The workers prepare one each, and one more waits, before the network begins.
    together = rates.steady(again(workers), learn, workers + 1, seconds * _TOGETHER)
    return Measured(
        images=images,
        distinct=first.images,
        batch=feed.config.batch_size,
        workers=workers,
        first_pass=first.rate,
        from_storage=first.from_storage,
        together=rates.rate_of(together),
        waiting=median(turn.waited for turn in together),
        **{name: rates.rate_of(each) for name, each in turns.items()},
    )


def _ready(feed: Feed) -> TrainingBatch:
    """A batch of noise, with targets that no step leads away from."""
    shape = (feed.config.batch_size, *feed.model.input_shape)
    data = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    return TrainingBatch(data, np.full((len(data), feed.classes), 1 / feed.classes, np.float32))


def _advice(
    found: Measured, model: Model, config: TrainingConfig, threads: FeedWorkers, kept: float, held: bool
) -> Iterator[str]:
    """What the figures mean beyond the verdict, and the remedies where the network starves."""
    noun, slowest = sample_noun(model.input_shape), min(found.network.rounds)
    starves_first = not held and found.first_pass < COLD * min(slowest, *found.all_workers.rounds)
    if starves_first:
        first, waiting = per_second(found.first_pass), percent(1 - found.first_pass / slowest)
        yield (
            f"in the first epoch, {first} {noun}s/s can be prepared: the network waits for {waiting} of the time, or "
            "more"
        )
    if kept < 1:
        yield (
            f"{percent(1 - kept)} of the {noun}s find no room in memory once they are decoded, and are decoded anew in "
            "each epoch"
        )
    yield from competing(found, noun)
    if found.verdict == "starved":
        yield _enough(found, threads, noun)
    if found.images.short_side is not None and (found.verdict == "starved" or starves_first):
        yield from oversized(found, _side(model, config))


def _enough(found: Measured, threads: FeedWorkers, noun: SampleNoun) -> str:
    """How many workers a network that starves would need, or why more do not help."""
    wanted = math.ceil(found.network.median / found.one_worker.median)
    if found.workers > 1 and found.one_worker.exceeds(found.all_workers):
        return "one thread prepares more than several do: give one (--workers 1, workers=1)"
    if not threads.scale:
        return f"more threads prepare such small {noun}s no faster"
    if wanted > MOST_DECODERS:
        return f"no number of threads would keep up: one alone prepares {per_second(found.one_worker.median)} {noun}s/s"
    if wanted > found.workers:
        return (
            f"about {wanted} threads (--workers, workers) would keep up, if each had a processor of its own and "
            "prepared as many as one alone"
        )
    times = found.all_workers.median / found.one_worker.median
    return f"{found.workers} threads prepare only {times:.1f} times as many as one: they lack processors of their own"


def _side(model: Model, config: TrainingConfig) -> Optional[int]:
    """The pixels of a stored image's short side of which the smallest crop has as many as the network reads."""
    smallest, preprocess = config.augmentation.smallest_crop, model.preprocess
    if smallest == 1:
        return None if preprocess is None else preprocess.resize or preprocess.crop
    return math.ceil(min(model.input_shape[1:]) / math.sqrt(smallest))
