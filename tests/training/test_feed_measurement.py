"""Measuring the feed of a training: what is read, how often, and what the figures mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from quantkit.data.preprocess import Preprocess
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError, SampleError, UserError
from quantkit.evaluation import stream_rates as rates
from quantkit.evaluation.feed import Feed
from quantkit.evaluation.stream_rates import Images, Rate
from quantkit.training import feed_measurement
from quantkit.training.augmentation import NONE, Augmentation
from quantkit.training.config import TrainingConfig
from quantkit.training.feed_measurement import TrainingFeeding, measure_training_feed
from quantkit.training.feed_workers import FeedWorkers
from tests.training.conftest import coloured, tiny

CONFIG = TrainingConfig(batch_size=8)
PREPROCESS = Preprocess(mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))

# Bytes that an image takes in memory.
SIZE = 8 * 8 * 3 + 512


@pytest.fixture(autouse=True)
def timed(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What decoding and preparing an image take, in ms; no sample is read before that is measured."""
    times = {"decoding": 2.0, "preprocessing": 3.0}
    look_at = rates.look_at
    monkeypatch.setattr(rates, "look_at", lambda *given: replace(look_at(*given), **times))
    monkeypatch.setattr(feed_measurement, "load_for_training", lambda data: None)
    return times


def test_mxnet_is_loaded_for_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(feed_measurement, "load_for_training", asked.append)
    samples, _ = counted(24)
    measured(samples)
    assert asked == [samples]


def test_one_worker_is_all_workers() -> None:
    found = measured(counted(24)[0], workers=1).feed
    assert found.one_worker == found.all_workers


def counted(number: int, label: Any = None, damaged: Container[int] = ()) -> tuple[Samples, Counter[int]]:
    """Images with one label, and how often each is read."""
    images, times = coloured(number), Counter[int]()

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            times[position] += 1
            if position in damaged:
                raise SampleError(f"image {position} is damaged", f"image {position}")
            (sample,) = images.read((position,))
            yield replace(sample, label=label)

    return replace(images, read=read, independent=True), times


def measured(samples: Any, **options: Any) -> TrainingFeeding:
    return measure_training_feed(tiny(), samples, CONFIG, **{"workers": 2, "seconds": 0.5, **options})


def test_whole_batches_are_read_once_and_then_come_from_memory() -> None:
    samples, times = counted(60)
    found = measured(samples)
    # Twenty are looked at before.
    assert sum(times.values()) == 20 + 56 and max(times.values()) == 2
    assert (found.form, found.network.kind, found.samples, found.kept) == ("trained", "fp32", 60, 1)
    assert (found.feed.distinct, found.feed.batch, found.feed.workers) == (56, 8, 2)
    for rate in (found.feed.one_worker, found.feed.all_workers, found.feed.network, found.feed.together):
        assert len(rate.rounds) == 5 and min(rate.rounds) > 0


@pytest.mark.parametrize(("preparing", "number"), [(3.0, 64), (0.0, 96)])
def test_as_many_are_read_as_the_workers_prepare(preparing: float, number: int, timed: dict[str, float]) -> None:
    # Two workers, for a fifth of half a second; but four batches for each.
    timed["preprocessing"] = preparing
    assert measured(counted(200)[0]).feed.distinct == number


def test_what_a_training_cannot_keep_is_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_measurement, "bytes_kept", lambda processes: 30 * SIZE)
    samples, times = counted(60)
    found = measured(samples)
    # Half of what is read over and over is read once, and perhaps looked at before.
    assert found.kept == 0.5 and any(each.startswith("50.0 % of the images find no room") for each in found.advice)
    assert 8 <= sum(number > 2 for number in times.values()) <= 28


def test_labels_do_not_matter() -> None:
    found = measured(counted(24, label=57)[0])
    assert found.classes == 3
    assert measured(counted(24, label=57)[0], classes=5).classes == 5


def test_one_after_another_they_are_held_before() -> None:
    stream = (sample.image[None] for sample in coloured(24))
    found = measured(stream)
    assert found.feed.distinct == 24 and found.kept == 1 and found.held


def test_damaged_images_are_left_out_as_far_as_they_may_be() -> None:
    with pytest.raises(DataError, match="image 3 is damaged"):
        measured(counted(24, damaged=[3])[0])
    found = measured(counted(24, damaged=[3])[0], skip_bad=1)
    assert found.feed.distinct == 24 and [each.position for each in found.left_out] == [3]
    with pytest.raises(DataError, match="no sample of coloured can be read; replace them"):
        measured(counted(24, damaged=range(24))[0], skip_bad=24)


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(DataError, match="coloured has 7 samples, fewer than a batch of 8"):
        measured(counted(7)[0])
    with pytest.raises(UserError, match="workers is 0, and the network itself would wait"):
        measured(counted(24)[0], workers=0)


def advised(
    first: float,
    every: float,
    network: float,
    augmentation: Augmentation = NONE,
    scale: bool = True,
    kept: float = 1.0,
    one: float = 0.0,
    held: bool = False,
) -> list[str]:
    single, all_, learning = (Rate((rate,) * 5) for rate in (one or every / 2, every, network))
    both = Rate((min(every, network),) * 5)
    found = Feed(Images(20, 20, 5.0, 1.0), 64, 32, 2, first, None, single, all_, learning, both, 0.1)
    config = replace(CONFIG, augmentation=augmentation)
    model = replace(tiny(), preprocess=replace(PREPROCESS, crop=8))
    return list(feed_measurement._advice(found, model, config, FeedWorkers(2, scale), kept, held))


def test_the_first_epoch_is_told_of_where_it_starves() -> None:
    said = "in the first epoch, 50 images/s can be prepared: the network waits for 75.0 % of the time, or more"
    # The images' short side is 20 pixels, and the network reads 8; crops of 35 % of the area have 8 of 14.
    assert advised(first=50, every=400, network=200) == [
        said, "store the images smaller: their short side is 20 pixels, 8 are needed"
    ]  # fmt: skip
    assert advised(first=50, every=400, network=200, augmentation=Augmentation()) == [said]
    assert advised(first=170, every=400, network=200) == []
    assert advised(first=50, every=400, network=200, held=True) == []


def test_a_training_that_starves_is_told_how_many_workers_keep_up() -> None:
    starved = partial(advised, first=200, every=100, network=200, augmentation=Augmentation())
    for options, said in (
        ({}, "about 4 threads (--workers, workers) would keep up"),
        ({"scale": False}, "more threads prepare such small images no faster"),
        ({"one": 110}, "one thread prepares more than several do: give one (--workers 1, workers=1)"),
        ({"one": 100}, "2 threads prepare only 1.0 times as many as one"),
        ({"network": 30_000}, "no number of threads would keep up: one alone prepares 50 images/s"),
    ):
        (found,) = starved(**options)
        assert found.startswith(said)


def test_samples_without_room_in_memory_are_told_of() -> None:
    (found,) = advised(first=400, every=400, network=200, kept=0.25)
    assert found.startswith("75.0 % of the images find no room in memory once they are decoded")
