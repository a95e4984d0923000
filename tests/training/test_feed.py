"""The feed: order, shares of instances, samples that cannot be used."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from threading import Event
from typing import Optional

import numpy as np
import pytest
from PIL import Image

from quantkit.data.arrays import arrays
from quantkit.data.loaders import data_loader
from quantkit.data.samples import Sample, Samples, skipping, take
from quantkit.data.sources import load_data
from quantkit.errors import DataError
from quantkit.training.augmentation import NONE, Augmentation
from quantkit.training.config import TrainingConfig
from quantkit.training.feed import Feed, TrainingBatch, readable_in_any_order
from tests.training.conftest import CLASSES, SIZE, coloured, tiny

CONFIG = TrainingConfig(batch_size=8, augmentation=NONE)


def feed(
    samples: Samples, config: TrainingConfig = CONFIG, workers: int = 0, rank: int = 0, instances: int = 1
) -> Feed:
    return Feed(readable_in_any_order(samples), tiny(), config, CLASSES, workers, rank, instances)


def numbered(count: int) -> Samples:
    """Float samples that say which they are."""
    x = np.zeros((count, 3, SIZE, SIZE), np.float32)
    x[:, 0, 0, 0] = np.arange(count)
    return arrays(x, np.arange(count) % CLASSES)


def flat(batches: list[list[int]]) -> list[int]:
    return list(chain.from_iterable(batches))


def seen(batches: Iterable[TrainingBatch]) -> list[list[int]]:
    return [batch.data[:, 0, 0, 0].astype(int).tolist() for batch in batches]


def test_an_epoch_has_each_sample_once_in_an_order_of_its_own() -> None:
    source = feed(numbered(48))
    first, again, second = (seen(source.epochs(number, number)) for number in (1, 1, 2))
    assert source.steps == 6 and [len(batch) for batch in first] == [8] * 6
    assert sorted(flat(first)) == sorted(flat(second)) == list(range(48))
    assert first == again != second
    other = feed(numbered(48), replace(CONFIG, seed=1))
    assert seen(other.epochs(1, 1)) != first


def test_what_is_too_little_for_a_batch_waits_for_another_epoch() -> None:
    source = feed(numbered(50))
    epochs = [set(flat(seen(source.epochs(number, number)))) for number in range(1, 9)]
    assert all(len(each) == 48 for each in epochs)
    assert set().union(*epochs) == set(range(50))


def test_labels_follow_their_samples() -> None:
    for batch in feed(numbered(24)).epochs(3, 3):
        assert np.array_equal(batch.targets.argmax(1), batch.data[:, 0, 0, 0].astype(int) % CLASSES)


@pytest.mark.parametrize("mixup", [0.0, 0.4])
def test_instances_share_each_batch_of_one(mixup: float) -> None:
    config = TrainingConfig(batch_size=8, mixup=mixup)
    whole = list(feed(coloured(40), config).epochs(2, 2))
    parts = [list(feed(coloured(40), config, 3, rank, 2).epochs(2, 2)) for rank in (0, 1)]
    for step, batch in enumerate(whole):
        for field in ("data", "targets"):
            together = np.concatenate([getattr(part[step], field) for part in parts])
            assert np.array_equal(together, getattr(batch, field))


def test_each_epoch_and_seed_varies_images_in_its_own_way() -> None:
    config = TrainingConfig(batch_size=3, augmentation=Augmentation(0.5))

    def by_class(epoch: int, seed: int = 0) -> np.ndarray:
        (batch,) = feed(coloured(3), replace(config, seed=seed)).epochs(epoch, epoch)
        return batch.data[np.argsort(batch.targets.argmax(1), kind="stable")]

    assert np.array_equal(by_class(1), by_class(1))
    assert not np.array_equal(by_class(1), by_class(2))
    assert not np.array_equal(by_class(1), by_class(1, seed=1))


def test_images_of_a_batch_are_varied_differently() -> None:
    (image,) = (sample.image for sample in islice(coloured(1), 1))
    alike = arrays(np.stack([image] * 2), np.array([0, 0]))
    (batch,) = feed(alike, TrainingConfig(batch_size=2, augmentation=Augmentation(0.5))).epochs(1, 1)
    assert not np.array_equal(*batch.data)


def test_an_early_end_waits_for_no_whole_batch() -> None:
    read: list[int] = []
    closing_now = Event()

    def slowly(wanted: Sequence[int]) -> Iterator[Sample]:
        read.extend(wanted)
        if len(read) > 1:
            # The second sample of the batch comes when nobody wants it any more.
            closing_now.set()
            time.sleep(0.2)
        yield from source.samples.read(wanted)

    source = feed(numbered(16), replace(CONFIG, batch_size=16), workers=1)
    with closing(replace(source, samples=replace(source.samples, read=slowly)).epochs(1, 1)):
        assert closing_now.wait(30)
    assert len(read) < 16


@pytest.mark.parametrize("workers", [0, 3])
def test_epochs_follow_each_other(workers: int) -> None:
    source = feed(coloured(40), TrainingConfig(batch_size=8, mixup=0.3), workers)
    together = list(source.epochs(2, 4))
    apart = [batch for number in (2, 3, 4) for batch in source.epochs(number, number)]
    assert len(together) == len(apart) == 15
    assert all(np.array_equal(a.data, b.data) and np.array_equal(a.targets, b.targets) for a, b in zip(together, apart))


def test_the_next_epoch_is_prepared_before_it_begins() -> None:
    positions: list[int] = []
    begun = Event()

    def read(wanted: Sequence[int]) -> Iterator[Sample]:
        positions.extend(wanted)
        if len(positions) > 16:
            begun.set()
        yield from source.samples.read(wanted)

    source = feed(numbered(16), workers=1)
    with closing(replace(source, samples=replace(source.samples, read=read)).epochs(1, 2)) as batches:
        # The first epoch alone is asked for.
        assert len(list(islice(batches, 2))) == 2
        assert begun.wait(30)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Eight images in two classes, of which two are damaged."""
    for number in range(8):
        path = tmp_path / ("red", "green")[number % 2] / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (SIZE, SIZE), (255 * (1 - number % 2), 255 * (number % 2), 0)).save(path)
    for name in ("red/2.png", "green/7.png"):
        (tmp_path / name).write_bytes(b"no image")
    return tmp_path


@pytest.mark.parametrize("workers", [0, 3])
def test_damaged_images_are_replaced_named_and_bounded(folder: Path, workers: int) -> None:
    source = feed(skipping(load_data(folder), 2), replace(CONFIG, batch_size=4), workers)
    for epoch in (1, 2):
        assert [len(batch.data) for batch in source.epochs(epoch, epoch)] == [4, 4]
    assert sorted(each.name for each in source.left_out.values()) == ["green/7.png", "red/2.png"]
    strict = feed(skipping(load_data(folder), 1), replace(CONFIG, batch_size=4), workers)
    with pytest.raises(DataError, match=r"cannot read image .*; 1 sample before it was left out, and no more may be"):
        list(strict.epochs(1, 1))
    # The one beyond the bound is refused, not left out.
    assert len(strict.left_out) == 1


@pytest.mark.parametrize("independent", [True, False])
def test_what_is_left_out_of_a_part_is_told_by_its_place_in_the_whole(independent: bool) -> None:
    x = np.zeros((24, 3, SIZE, SIZE), np.float32)
    x[15] = np.nan
    whole = replace(arrays(x, np.zeros(24, int)), independent=independent)
    source = feed(skipping(replace(whole, positions=range(1, 24, 2)), 1))
    for epoch in (1, 2):
        assert len(list(source.epochs(epoch, epoch))) == 1
    assert [(each.position, each.name) for each in source.left_out.values()] == [(15, "sample 15 of arrays")]


def test_labels_beyond_the_classes_are_told() -> None:
    wrong = arrays(np.zeros((8, 3, SIZE, SIZE), np.float32), np.array([0, 1, 2, 3] * 2))
    with pytest.raises(DataError, match=r"has label 3, but the network has 3 classes \(0 to 2\)"):
        list(feed(wrong).epochs(1, 1))
    pixels = arrays(np.zeros((8, SIZE, SIZE, 3), np.uint8), np.full(8, 7))
    with pytest.raises(DataError, match="has label 7, but the network has 3 classes"):
        list(feed(pixels, TrainingConfig(batch_size=8)).epochs(1, 1))


def test_samples_without_labels_are_told() -> None:
    with pytest.raises(DataError, match=r"sample \d of arrays has no label; give a class for each sample"):
        list(feed(arrays(np.zeros((8, 3, SIZE, SIZE), np.float32))).epochs(1, 1))


def test_what_is_read_in_sequence_is_held_and_shuffled() -> None:
    batches = [(np.full((4, 3, SIZE, SIZE), number, np.float32), np.full(4, number % 3)) for number in range(4)]
    source = feed(data_loader(batches))
    assert sorted(flat(seen(source.epochs(1, 1)))) == sorted(list(range(4)) * 4)
    chosen = readable_in_any_order(take(numbered(30), 10))
    assert len(chosen) == 10 and chosen.independent


@pytest.mark.parametrize(("free", "reads"), [(1 << 30, 1), (0, 2), (None, 2)])
def test_independent_samples_are_read_once_as_far_as_they_fit(
    free: Optional[int], reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quantkit.training.feed.available_memory", lambda: free)
    taken: list[int] = []

    def one(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            taken.append(position)
            yield Sample(np.full((3, SIZE, SIZE), position, np.float32), 0, str(position))

    source = feed(Samples("independent", one, 16, independent=True))
    first, second = seen(source.epochs(1, 1)), seen(source.epochs(2, 2))
    assert sorted(flat(first)) == sorted(flat(second)) == list(range(16)) and first != second
    assert sorted(taken) == sorted([*range(16)] * reads)


def test_processes_of_a_machine_share_the_memory_for_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of it is enough for three of four samples in one process, and for one in each of two."""
    whole = Image.new("RGB", (100, 100))
    monkeypatch.setattr("quantkit.training.feed.available_memory", lambda: 4 * 3 * 31_000)

    def held(processes: int) -> int:
        taken: list[int] = []

        def one(positions: Iterable[int]) -> Iterator[Sample]:
            for position in positions:
                taken.append(position)
                yield Sample(np.array(whole), 0, str(position))

        samples = readable_in_any_order(Samples("independent", one, 4, independent=True), processes)
        assert len([*samples]) == len([*samples]) == 4
        return 8 - len(taken)

    assert [held(1), held(2)] == [3, 1]


def test_what_cannot_be_held_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantkit.training.feed.available_memory", lambda: 1 << 21)

    def endless(positions: Iterable[int]) -> Iterator[Sample]:
        return (Sample(np.zeros((3, 256, 256), np.float32), 0, str(position)) for position in positions)

    with pytest.raises(DataError, match="take more than the 1 MiB that they may; pack them"):
        readable_in_any_order(Samples("endless", endless, None))
