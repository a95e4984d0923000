"""Calibration datasets: what is read how often, by samples that count."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from quantkit.data.batches import batches
from quantkit.data.dataset import CACHE_BYTES, CalibrationDataset
from quantkit.data.preprocess import Preprocess
from quantkit.data.samples import Sample, Samples, take
from quantkit.errors import DataError, UserError

PREPROCESS = Preprocess(None, 4, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
SHAPE = (3, 4, 4)
BYTES = 4 * 3 * 4 * 4 + 512
IMAGES = np.random.default_rng(3).integers(0, 256, (9, 6, 5, 3), np.uint8)


def counted(any_order: bool = False, independent: bool = False) -> tuple[Samples, Counter[int]]:
    """Nine images, and how often each of them was read."""
    reads: Counter[int] = Counter()

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            if position >= len(IMAGES):
                return
            reads[position] += 1
            yield Sample(IMAGES[position], position, f"image {position}")

    return Samples("images", read, len(IMAGES), any_order, independent=independent), reads


def values(dataset: CalibrationDataset, batch_size: int = 4) -> np.ndarray:
    return np.concatenate([batch.data for batch in dataset.batches(batch_size)])


@pytest.mark.parametrize("any_order", [True, False])
@pytest.mark.parametrize("independent", [True, False])
def test_subsets_are_those_of_the_samples_and_each_image_is_read_once(any_order: bool, independent: bool) -> None:
    samples, reads = counted(any_order, independent)
    dataset = CalibrationDataset(samples, PREPROCESS, SHAPE)
    plain, _ = counted(any_order, independent)
    for number in (2, 7, 4, 9):
        (expected,) = batches(take(plain, number), PREPROCESS, SHAPE, number)
        subset = dataset.subset(number)
        np.testing.assert_array_equal(values(subset), expected.data)
        (found,) = subset.batches(number)
        assert (found.names, list(found.labels)) == (expected.names, list(expected.labels))
        assert len(subset) == subset.size == number
        each = b"".join(hashlib.sha256(sample.tobytes()).digest() for sample in expected.data)
        assert subset.sha256 == hashlib.sha256(each).hexdigest()
        assert subset.subset(2).sha256 == dataset.subset(2).sha256
    assert dataset.sha256 == dataset.subset(9).sha256 != dataset.subset(7).sha256
    assert reads == dict.fromkeys(range(9), 1)


def test_a_hash_takes_no_pass_of_its_own_after_the_samples_were_read() -> None:
    samples, reads = counted()
    dataset = CalibrationDataset(samples, PREPROCESS, SHAPE, cache_bytes=0)
    values(dataset)
    assert len(dataset.sha256) == 64
    assert reads == dict.fromkeys(range(9), 1)


def test_a_hash_is_of_all_samples_even_where_a_pass_ended_early() -> None:
    samples, _ = counted()
    dataset = CalibrationDataset(samples, PREPROCESS, SHAPE)
    next(dataset.batches(4))
    assert dataset.sha256 == CalibrationDataset(samples, PREPROCESS, SHAPE).sha256


@pytest.mark.parametrize(("cache_bytes", "held"), [(5 * BYTES, 5), (6 * BYTES - 1, 5), (0, 0), (CACHE_BYTES, 9)])
def test_what_does_not_fit_is_read_again(cache_bytes: int, held: int) -> None:
    samples, reads = counted()
    dataset = CalibrationDataset(samples, PREPROCESS, SHAPE, cache_bytes)
    first, second = values(dataset), values(dataset)
    np.testing.assert_array_equal(first, second)
    assert [reads[position] for position in range(9)] == [1] * held + [2] * (9 - held)


def test_threads_may_read_at_the_same_time() -> None:
    samples, _ = counted(independent=True)
    dataset = CalibrationDataset(samples, PREPROCESS, SHAPE)
    expected = values(CalibrationDataset(samples, PREPROCESS, SHAPE))
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: values(dataset, 1), range(64)):
            np.testing.assert_array_equal(found, expected)


def test_a_generator_is_read_once_by_all_subsets() -> None:
    (expected,) = batches(take(counted(any_order=True)[0], 9), PREPROCESS, SHAPE, 9)
    dataset = CalibrationDataset((IMAGES[start : start + 2] for start in range(0, 9, 2)), PREPROCESS, SHAPE)
    assert dataset.size is None
    for number in (3, 9, 5):
        np.testing.assert_array_equal(values(dataset.subset(number)), expected.data[:number])
    with pytest.raises(DataError, match="10 samples were requested, but data loader holds 9"):
        values(dataset.subset(10))


def test_a_generator_that_does_not_fit_is_told() -> None:
    dataset = CalibrationDataset((image[None] for image in IMAGES), PREPROCESS, SHAPE, 4 * BYTES)
    assert len(values(dataset.subset(9))) == 9
    with pytest.raises(DataError, match=r"sample 4 of data loader was read before.*iterated again"):
        values(dataset.subset(9))


def test_a_sample_that_cannot_be_used_is_told_each_time() -> None:
    other = np.zeros((1, 3, 4, 5), np.float32)
    dataset = CalibrationDataset(iter([np.ones((2, *SHAPE), np.float32), other]), None, SHAPE)
    for _ in range(2):
        with pytest.raises(DataError, match=r"sample 2 of data loader.*\(3, 4, 5\)"):
            values(dataset)


def test_the_source_may_end_early() -> None:
    samples, _ = counted()
    dataset = CalibrationDataset(replace(samples, size=None), PREPROCESS, SHAPE)
    values(dataset.subset(4))
    with pytest.raises(DataError, match="12 samples were requested, but images holds 9"):
        values(dataset.subset(12))
    assert len(values(dataset)) == 9


@pytest.mark.parametrize("wanted", [3, 9, 12])
@pytest.mark.parametrize("kind", ["list", "generator", "array"])
def test_at_most_takes_what_there_is(kind: str, wanted: int) -> None:
    data = {"list": [IMAGES], "generator": iter([IMAGES]), "array": counted(any_order=True)[0]}[kind]
    dataset = CalibrationDataset(data, PREPROCESS, SHAPE)
    subset = dataset.subset(wanted, at_most=True)
    found = values(subset)
    assert len(found) == len(subset) == subset.size == min(wanted, 9)
    assert len(values(subset.subset(20, at_most=True))) == min(wanted, 9)
    np.testing.assert_array_equal(found, values(dataset.subset(min(wanted, 9))))
    with pytest.raises(DataError, match=f"{min(wanted, 9) + 1} samples were requested"):
        values(subset.subset(min(wanted, 9) + 1))


def test_a_subset_gives_no_samples_beyond_its_own() -> None:
    dataset = CalibrationDataset(counted()[0], PREPROCESS, SHAPE)
    with pytest.raises(DataError, match="5 samples were requested, but images holds 4; request at most 4"):
        dataset.subset(4).subset(5)
    assert dataset.subset(4).subset(5, at_most=True).sha256 == dataset.subset(4).sha256


def test_labels_are_checked() -> None:
    dataset = CalibrationDataset(counted()[0], PREPROCESS, SHAPE)
    assert len(list(dataset.batches(9, classes=9))) == 1
    with pytest.raises(DataError, match="label 8"):
        list(dataset.batches(9, classes=8))


def test_it_belongs_to_networks_that_read_alike() -> None:
    dataset = CalibrationDataset(counted()[0], PREPROCESS, SHAPE)
    dataset.check_form(PREPROCESS, list(SHAPE), "net")
    for preprocess, shape in ((replace(PREPROCESS, scale=1.0), SHAPE), (None, SHAPE), (PREPROCESS, (3, 4, 5))):
        with pytest.raises(UserError, match="'images' was preprocessed for another network than 'net'"):
            dataset.check_form(preprocess, shape, "net")


def test_it_tells_of_itself_in_a_line() -> None:
    dataset = CalibrationDataset(counted()[0], PREPROCESS, SHAPE)
    assert repr(dataset) == "CalibrationDataset('images', 9 samples of (3, 4, 4))"
    assert not dataset.builtin
    assert CalibrationDataset("builtin", PREPROCESS, SHAPE).builtin
    endless = CalibrationDataset(iter([IMAGES]), PREPROCESS, SHAPE)
    assert repr(endless) == "CalibrationDataset('data loader', an unknown number of samples of (3, 4, 4))"
    with pytest.raises(TypeError, match="is unknown until all are read"):
        len(endless)
