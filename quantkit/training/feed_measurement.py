"""Whether samples can be prepared as fast as a network learns from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Optional

import numpy as np

from quantkit.benchmark.workloads.feed import SECONDS, Feeding, competing, remedies, undisturbed
from quantkit.data.sample_noun import SampleNoun, sample_noun
from quantkit.data.samples import Sample, Samples, take
from quantkit.evaluation.feed import FIRST_PASS, Images, Stream, look_at, measure_streams, read_first
from quantkit.evaluation.feed import Feed as Measured
from quantkit.evaluation.network import Network
from quantkit.models.model import Model
from quantkit.training.communication import Alone
from quantkit.training.config import TrainingConfig
from quantkit.training.feed import Feed, TrainingBatch, bytes_kept, check_batch, readable_in_any_order
from quantkit.training.feed_workers import feed_workers
from quantkit.training.finetune import trainable_classifier
from quantkit.training.head import classes_of
from quantkit.training.network import TrainedNetwork
from quantkit.training.spinning import spin_briefly
from quantkit.units import megabytes, percent

# More epochs than any measurement lasts.
_ENDLESS = 10**9

# Seconds below which no sample is prepared.
_QUICKEST = 1e-6


@dataclass(frozen=True)
class _Looked:
    """The first few samples: what they are, and the bytes that all of them take decoded, if these are not kept."""

    images: Images
    too_many: Optional[int]


def measure_training_feed(
    model: Model,
    samples: Samples,
    config: TrainingConfig,
    workers: Optional[int] = None,
    seconds: float = SECONDS,
) -> Feeding:
    """Measure how fast samples are prepared for a training, how fast a network learns from them, and both together.

    As many samples as a thread prepares in a fifth of the time are read: once, as in the first epoch, then over and
    over, as in later ones, from memory unless all of the samples would take more than a training keeps. They need no
    labels: all classes are the target, to the same share.

    Args:
        model: a classifier.
        samples: what it would learn from.
        config: the batch, the augmentation, and what is frozen.
        workers: threads that prepare samples, as for ``finetune``.
        seconds: how long to measure in all; each of five rounds has at least two steps.

    Raises:
        ModelError: the network is no classifier that can be trained.
        DataError: the samples cannot be used, or are fewer than a batch.
        UserError: something to be frozen is not there, or nothing is left to learn.
        EngineError: the engine cannot train the network.
    """
    spin_briefly(samples)
    network, threads = trainable_classifier(model, config), feed_workers(workers, samples, model.input_shape).number
    feed = Feed(samples, model, config, classes_of(model), threads, labelled=False)
    looked = _looked_at(feed)
    read = samples if looked.too_many else readable_in_any_order(samples)
    check_batch(read, config.batch_size)
    feed = replace(feed, samples=_chosen(read, looked.images, config.batch_size, seconds * FIRST_PASS))
    trained = TrainedNetwork(network, config, feed.steps, Alone())
    ready = _ready(feed)

    def learn(data: np.ndarray) -> None:
        trained.step(data, ready.targets)
        trained.wait()

    def again(number: int) -> Stream:
        return replace(feed, workers=number).epochs(2, _ENDLESS)

    def measured() -> Measured:
        first = read_first(feed.epochs(1, 1))
        return measure_streams(looked.images, first, again, ready, learn, threads, seconds * (1 - FIRST_PASS))

    found, warnings = undisturbed(measured)
    form = Network(model.name, "fp32", model.graph, model.input_shape, model.preprocess, model.source.weights)
    texts = tuple(_advice(found, form, looked.too_many))
    return Feeding(form, "trained", samples.name, found, texts, warnings)


def _looked_at(feed: Feed) -> _Looked:
    sizes: list[int] = []

    def varied(sample: Sample) -> None:
        sizes.append(sample.image.nbytes)
        feed.varied(sample, 1, 0)

    samples = feed.samples
    images = look_at(samples, varied)
    total = int(fmean(sizes) * samples.size) if samples.independent and samples.size else 0
    return _Looked(images, total if total > bytes_kept(1) else None)


def _chosen(samples: Samples, images: Images, batch: int, seconds: float) -> Samples:
    """Whole batches of samples, as many as one thread prepares in the time, and two if there are as many."""
    each = max(_QUICKEST, (images.decoding + images.preprocessing) / 1e3)
    most = min(len(samples), max(2 * batch, int(seconds / each)))
    return take(samples, most - most % batch)


def _ready(feed: Feed) -> TrainingBatch:
    """A batch of noise, with targets that no step leads away from."""
    shape = (feed.config.batch_size, *feed.model.input_shape)
    data = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    return TrainingBatch(data, np.full((len(data), feed.classes), 1 / feed.classes, np.float32))


def _advice(found: Measured, network: Network, too_many: Optional[int]) -> Iterator[str]:
    """What the figures mean beyond the verdict, and the remedies where the network starves."""
    noun: SampleNoun = sample_noun(network.input_shape)
    slowest = min(found.network.rounds)
    if found.first_pass < min(slowest, found.all_workers.median):
        rate, waiting = f"{found.first_pass:.0f} {noun}s/s", percent(1 - found.first_pass / slowest)
        yield f"in the first epoch, {rate} are prepared: the network waits for {waiting} of it"
    if too_many:
        yield (
            f"decoded, all {noun}s take about {megabytes(too_many)}, more than the {megabytes(bytes_kept(1))} that "
            "stay in memory: those beyond are decoded anew in each epoch, as all were for this"
        )
    yield from competing(found, noun)
    yield from remedies(found, network.preprocess)
