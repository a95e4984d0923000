"""Batches: what a network reads, and what is refused by name."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.data.arrays import arrays
from quantkit.data.batches import batches, varies
from quantkit.data.preprocess import Preprocess, apply
from quantkit.data.samples import Sample, Samples, picked, take
from quantkit.data.sources import load_data
from quantkit.data.vocabulary import Vocabulary
from quantkit.errors import DataError

Array = np.ndarray[Any, Any]

PREPROCESS = Preprocess(None, 4, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
PIXELS = np.random.default_rng(0).integers(0, 256, (7, 5, 6, 3), np.uint8)
FLOATS = np.random.default_rng(0).standard_normal((7, 3, 4, 4)).astype(np.float32)


@pytest.mark.parametrize("batch_size", [1, 3, 7, 100])
def test_images_are_preprocessed_one_by_one(batch_size: int) -> None:
    found = list(batches(arrays(PIXELS, np.arange(7)), PREPROCESS, (3, 4, 4), batch_size))
    assert [len(batch.data) for batch in found[:-1]] == [batch_size] * (len(found) - 1)
    data = np.concatenate([batch.data for batch in found])
    assert data.dtype == np.float32
    np.testing.assert_array_equal(data, [apply(PREPROCESS, image) for image in PIXELS])
    labels = np.concatenate([batch.labels for batch in found if batch.labels is not None])
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(labels, np.arange(7))
    assert sum((batch.names for batch in found), ()) == tuple(f"sample {index} of arrays" for index in range(7))


@pytest.mark.parametrize("preprocess", [None, PREPROCESS])
def test_floats_are_taken_as_they_are(preprocess: Preprocess | None) -> None:
    (batch,) = batches(arrays(FLOATS), preprocess, (3, 4, 4), 10)
    np.testing.assert_array_equal(batch.data, FLOATS)
    assert batch.labels is None


def test_limit() -> None:
    sizes = [len(batch.data) for batch in batches(arrays(FLOATS), None, (3, 4, 4), 3, limit=5)]
    assert sizes == [3, 2]


@pytest.mark.parametrize("workers", [0, 2])
def test_more_than_any_set_holds(workers: int) -> None:
    (batch,) = batches(arrays(FLOATS), None, (3, 4, 4), 10**30, limit=10**30, workers=workers)
    assert len(batch.data) == 7


def changed(value: float) -> Array:
    x = FLOATS.copy()
    x[5, 1, 2, 3] = value
    return x


@pytest.mark.parametrize(
    ("x", "preprocess", "message"),
    [
        (changed(np.nan), None, "sample 5 of arrays holds NaN"),
        (changed(np.inf), None, "sample 5 of arrays holds NaN or infinite"),
        (FLOATS[:, :, :3], None, r"sample 0 .* shape \(3, 3, 4\)"),
        (FLOATS.transpose(0, 2, 3, 1), None, r"shape \(4, 4, 3\)"),
        (PIXELS, None, "uint8 pixels"),
        (PIXELS, Preprocess(None, None, (0, 0, 0), (1, 1, 1)), r"shape \(3, 5, 6\).*reads \(3, 4, 4\)"),
        (PIXELS, Preprocess(None, 6, (0, 0, 0), (1, 1, 1)), "crops to 6x6"),
    ],
)
def test_refuses_samples_by_name(x: Array, preprocess: Preprocess | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(batches(arrays(x), preprocess, (3, 4, 4), 3))


def test_refuses_other_dtypes_from_any_source() -> None:
    source = Samples("doubles", lambda _: iter([Sample(np.zeros((3, 4, 4)), None, "one")]), 1)
    with pytest.raises(DataError, match="one is float64"):
        list(batches(source, PREPROCESS, (3, 4, 4), 3))


def test_refuses_labels_out_of_range() -> None:
    labelled = arrays(FLOATS, np.arange(7))
    assert len(list(batches(labelled, None, (3, 4, 4), 3, classes=7))) == 3
    with pytest.raises(DataError, match=r"sample 6 .* label 6, but the network has 6 classes \(0 to 5\)"):
        list(batches(labelled, None, (3, 4, 4), 3, classes=6))


def test_steps_have_labels_in_range() -> None:
    ids, labels = np.zeros((3, 4), np.int64), np.zeros((3, 4), np.int64)
    labels[1, 2] = 6
    labelled = arrays(ids, labels)
    (batch,) = batches(labelled, Vocabulary("embedding", 9), (4,), 3, classes=7)
    np.testing.assert_array_equal(batch.labels, labels)
    with pytest.raises(DataError, match=r"sample 1 .* label 6 at step 2, but the network has 6 classes"):
        list(batches(labelled, Vocabulary("embedding", 9), (4,), 3, classes=6))


def test_refuses_labels_of_samples_and_of_steps() -> None:
    pair = [Sample(FLOATS[0], 1, "one"), Sample(FLOATS[1], np.array([1, 2]), "two")]
    with pytest.raises(DataError, match=r"two has labels of shape \(2,\), the samples before it of shape \(\)"):
        list(batches(Samples("pair", lambda positions: picked(pair, positions), 2), None, (3, 4, 4), 2))


def test_sequences_of_one_feature_are_not_constant() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 6, 1)
    assert [varies(batch) for batch in batches(arrays(x), None, (6, 1), 2)] == [True]
    assert [varies(batch) for batch in batches(arrays(x * 0), None, (6, 1), 2)] == [False]


@pytest.mark.parametrize("first", [None, 1])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_refuses_labels_for_some_only(first: int | None, batch_size: int) -> None:
    pair = [Sample(FLOATS[0], first, "one"), Sample(FLOATS[1], 1 if first is None else None, "two")]
    with pytest.raises(DataError, match="two and the samples before"):
        list(batches(Samples("pair", lambda positions: picked(pair, positions), 2), None, (3, 4, 4), batch_size))


def test_refuses_no_samples_and_no_batch() -> None:
    with pytest.raises(DataError, match="no samples"):
        list(batches(arrays(FLOATS[:0]), None, (3, 4, 4), 3))
    with pytest.raises(DataError, match="at least 1"):
        list(batches(arrays(FLOATS), None, (3, 4, 4), 0))


def test_constant_samples_are_no_calibration_data() -> None:
    flat = np.zeros((4, 6, 6, 3), np.uint8)
    flat[1:] = [10, 20, 30]
    for x, preprocess in ((flat, PREPROCESS), (np.zeros((4, 3, 4, 4), np.float32), None)):
        assert not any(varies(batch) for batch in batches(arrays(x), preprocess, (3, 4, 4), 2))


def test_one_sample_that_is_not_constant_suffices() -> None:
    x = np.zeros_like(FLOATS)
    x[6] = FLOATS[6]
    assert any(varies(batch) for batch in batches(arrays(x), None, (3, 4, 4), 3))


def test_vectors_may_be_samples_too() -> None:
    rows = np.eye(4, dtype=np.float32)
    assert [varies(batch) for batch in batches(arrays(rows), None, (4,), 2)] == [True, True]
    assert [varies(batch) for batch in batches(arrays(rows * 0), None, (4,), 2)] == [False, False]


def test_memory_does_not_grow_with_the_number_of_samples() -> None:
    def peak(number: int) -> int:
        def made(position: int) -> Sample:
            return Sample(np.full((3, 64, 64), position, np.float32), None, "")

        source = Samples("made", lambda positions: map(made, positions), number)
        tracemalloc.start()
        for _ in batches(source, None, (3, 64, 64), 4):
            pass
        largest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return largest

    assert peak(400) < peak(40) * 1.2


def test_real_data(real_data: Path) -> None:
    imagenet = Preprocess(256, 224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert len(load_data(f"{real_data}/imagenet:calib")) == 100
    test = load_data(f"{real_data}/imagenet:test")
    assert len(test) == 400
    (batch,) = batches(take(test, 10), imagenet, (3, 224, 224), 10, classes=1000)
    assert abs(batch.data.mean()) < 1 and 0.5 < batch.data.std() < 2
    cifar = Preprocess(None, None, (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
    train = take(load_data(real_data / "cifar10" / "train-2000.npz"), 100)
    (batch,) = batches(train, cifar, (3, 32, 32), 100, classes=10)
    assert batch.labels is not None and len(set(batch.labels.tolist())) == 10
    assert abs(batch.data.mean()) < 0.3 and 0.8 < batch.data.std() < 1.4
