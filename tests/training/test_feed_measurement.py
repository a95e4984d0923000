"""Measuring the feed of a training: what is read, how often, and what the figures mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from quantkit.benchmark.workloads.feed import Feeding
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError
from quantkit.evaluation.feed import Feed, Images, Rate
from quantkit.training import feed_measurement
from quantkit.training.config import TrainingConfig
from quantkit.training.feed_measurement import measure_training_feed
from tests.training.conftest import coloured, tiny

CONFIG = TrainingConfig(batch_size=8)


@pytest.fixture(autouse=True)
def decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the user has decided how long threads spin, no sample is read for that."""
    monkeypatch.setenv("GOMP_SPINCOUNT", "10000")


def counted(number: int) -> tuple[Samples, Counter[int]]:
    """Images without labels, and how often each is read."""
    images, times = coloured(number), Counter[int]()

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            times[position] += 1
            (sample,) = images.read((position,))
            yield replace(sample, label=None)

    return replace(images, read=read, independent=True), times


def measured(samples: Samples) -> Feeding:
    return measure_training_feed(tiny(), samples, CONFIG, 2, 0.5)


def test_whole_batches_are_read_once_and_then_come_from_memory() -> None:
    samples, times = counted(60)
    found = measured(samples)
    # The first twenty are looked at before.
    assert max(times.values()) == 2
    assert sum(times.values()) == 20 + found.feed.distinct and found.feed.distinct == 56
    assert (found.form, found.network.kind, found.feed.batch, found.feed.workers) == ("trained", "fp32", 8, 2)
    for rate in (found.feed.one_worker, found.feed.all_workers, found.feed.network, found.feed.together):
        assert len(rate.rounds) == 5 and min(rate.rounds) > 0


def test_what_a_training_cannot_keep_is_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # An image takes 192 bytes.
    monkeypatch.setattr(feed_measurement, "bytes_kept", lambda processes: 60 * 192 - 1)
    samples, times = counted(60)
    found = measured(samples)
    assert sum(times.values()) > 10 * found.feed.distinct
    assert any("are decoded anew in each epoch" in each for each in found.advice)


def test_few_samples_of_many_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    look_at = feed_measurement.look_at
    monkeypatch.setattr(
        feed_measurement, "look_at", lambda *given: replace(look_at(*given), decoding=2.0, preprocessing=3.0)
    )
    samples, times = counted(400)
    # A fifth of half a second, at five milliseconds each.
    assert measured(samples).feed.distinct == 16 and 16 <= len(times) <= 36


def test_samples_fewer_than_a_batch_are_refused() -> None:
    with pytest.raises(DataError, match="coloured has 7 samples, fewer than a batch of 8"):
        measured(counted(7)[0])


def advised(first: float, every: float, network: float) -> list[str]:
    one, all_, learning = (Rate((rate,) * 5) for rate in (every / 2, every, network))
    found = Feed(
        Images(20, 500, 5.0, 1.0), 64, 32, 2, first, None, one, all_, learning, Rate((min(every, network),) * 5), 0.1
    )
    return list(feed_measurement._advice(found, measured_network(), None))


def measured_network() -> feed_measurement.Network:
    model = tiny()
    return feed_measurement.Network("tiny", "fp32", model.graph, model.input_shape, model.preprocess, "random")


def test_the_first_epoch_is_told_of_where_it_starves() -> None:
    assert advised(first=50, every=400, network=200) == [
        "in the first epoch, 50 images/s are prepared: the network waits for 75.0 % of it"
    ]
    assert advised(first=300, every=400, network=200) == []


def test_a_training_that_starves_is_told_how_many_workers_keep_up() -> None:
    found = advised(first=100, every=100, network=200)
    assert [each for each in found if each.startswith("at least 4 decoding workers")]
    assert not any("float32" in each for each in found)
