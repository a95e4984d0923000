"""Data loaders and data iterators, by stand-ins with MXNet's interface."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quantkit.data.loaders import data_iter, data_loader
from quantkit.data.samples import take
from quantkit.errors import DataError

Array = np.ndarray[Any, Any]

FLOATS = np.random.default_rng(0).standard_normal((7, 3, 2, 2)).astype(np.float32)
PIXELS = np.random.default_rng(0).integers(0, 256, (7, 2, 2, 3), np.uint8)


class Engine:
    """An engine's array."""

    def __init__(self, values: Array) -> None:
        self.values = values

    def asnumpy(self) -> Array:
        return self.values


class Iter:
    """An engine's iterator with batches of 3, the last one padded from the start."""

    def __init__(self, x: Array, y: Array | None) -> None:
        self.x, self.y, self.start = x, y, 99
        self.provide_data = [("data", x.shape)]

    def reset(self) -> None:
        self.start = 0

    def next(self) -> SimpleNamespace:
        if self.start >= len(self.x):
            raise StopIteration
        index = np.arange(self.start, self.start + 3)
        self.start += 3
        label = [] if self.y is None else [Engine(self.y[index % len(self.x)])]
        pad = int((index >= len(self.x)).sum())
        return SimpleNamespace(data=[Engine(self.x[index % len(self.x)])], label=label, pad=pad)


def pairs(x: Array, y: Array) -> list[list[Engine]]:
    return [[Engine(x[start : start + 3]), Engine(y[start : start + 3])] for start in range(0, len(x), 3)]


@pytest.mark.parametrize("x", [FLOATS, PIXELS])
@pytest.mark.parametrize("kind", ["loader", "iter"])
def test_every_sample_once_with_its_label_as_often_as_asked(x: Array, kind: str) -> None:
    y = np.arange(7, dtype=np.float32)
    samples = data_loader(pairs(x, y)) if kind == "loader" else data_iter(Iter(x, y))
    for _ in range(2):
        read = list(samples)
        np.testing.assert_array_equal(np.stack([sample.image for sample in read]), x)
        assert [sample.label for sample in read] == list(range(7))
        assert len({sample.name for sample in read}) == 7
    assert [sample.label for sample in take(samples, 4)] == [0, 1, 2, 3]
    with pytest.raises(DataError, match=r"8 samples were requested, but data .* holds 7"):
        list(take(samples, 8))


def test_without_labels() -> None:
    for samples in (data_loader([FLOATS[:3], (FLOATS[3:],)]), data_iter(Iter(FLOATS, None))):
        assert [sample.label for sample in samples] == [None] * 7


def test_an_empty_source_is_an_error() -> None:
    for empty in (data_loader([]), data_loader(iter([])), data_iter(Iter(FLOATS[:0], None))):
        with pytest.raises(DataError, match="gave no samples"):
            list(empty)


def test_an_iterator_is_read_on_and_never_gives_other_samples_for_those_read_before() -> None:
    samples = data_loader(iter([FLOATS[:3], FLOATS[3:]]))
    np.testing.assert_array_equal([sample.image for sample in take(samples, 2)], FLOATS[:2])
    with pytest.raises(DataError, match="sample 0 of data loader was read before"):
        list(samples)
    np.testing.assert_array_equal([sample.image for sample in samples.read([2, 4])], FLOATS[[2, 4]])
    with pytest.raises(DataError, match="sample 3 of data loader was read before"):
        list(samples.read([3]))
    assert [sample.name for sample in samples.read([6, 7])] == ["sample 6 of data loader"]


def test_an_iterator_that_failed_fails_again_alike() -> None:
    samples = data_loader(iter([FLOATS[:3], FLOATS[3:].astype(np.float64)]))
    for _ in range(2):
        with pytest.raises(DataError, match="float64"):
            list(samples.read([2, 3]))
    np.testing.assert_array_equal([sample.image for sample in samples.read([2])], FLOATS[[2]])


def test_the_last_sample_of_an_iterator_can_be_read_again() -> None:
    samples = data_loader(iter([FLOATS]))
    assert len(list(samples)) == 7
    np.testing.assert_array_equal([sample.image for sample in samples.read([6, 7])], FLOATS[[6]])


def test_a_data_iter_that_is_read_by_two_at_once_is_told() -> None:
    samples = data_iter(Iter(FLOATS, None))
    first = iter(samples)
    next(first)
    assert len(list(samples)) == 7
    with pytest.raises(DataError, match="data iterator was restarted before an earlier iteration ended"):
        list(first)
    assert len(list(samples)) == 7


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ((FLOATS, FLOATS, FLOATS), "has 3 parts"),
        ((), "has 0 parts"),
        (FLOATS.astype(np.float64), "float64"),
        ((FLOATS, np.arange(6)), "7 samples"),
        ((FLOATS, np.arange(7) - 3), "label -3"),
        ("text", "shape"),
    ],
)
def test_refuses_other_batches(batch: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(data_loader([batch]))
