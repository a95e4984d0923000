"""The built-in photographs and digits."""

from __future__ import annotations

import time
from collections import Counter
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets as sklearn_datasets
from scipy import ndimage

from quantkit.data import builtin
from quantkit.data.batches import batches
from quantkit.data.builtin import digits, photographs
from quantkit.data.preprocess import Preprocess
from quantkit.data.samples import take
from quantkit.errors import DataError, ExtraMissing


def test_the_first_ten_crops_cover_all_photographs() -> None:
    names = {sample.name.rpartition(" ")[2] for sample in take(photographs(), 10)}
    assert names == {Path(file).name for _, _, file in builtin._PHOTOGRAPHS}
    assert "scikit-image" in photographs().name and "scikit-learn" in photographs().name


def test_crops_are_square_colour_images_and_the_same_each_time() -> None:
    for one, other in zip(take(photographs(), 14), take(photographs(), 14)):
        height, width, channels = one.image.shape
        assert one.image.dtype == np.uint8 and height == width >= 180 and channels == 3
        np.testing.assert_array_equal(one.image, other.image)
        grey = one.image.mean(axis=2, keepdims=True)
        assert np.abs(one.image - grey).mean() > 2


def test_threads_decode_each_photograph_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: Counter[str] = Counter()

    def slow(file: Path, name: str) -> np.ndarray:
        decoded[name] += 1
        time.sleep(0.05)
        return np.zeros((40, 40, 3), np.uint8)

    monkeypatch.setattr(builtin, "decode", slow)
    monkeypatch.setattr(builtin, "_photograph", lru_cache(builtin._photograph.__wrapped__))
    preprocess = Preprocess(8, 8, (0, 0, 0), (1, 1, 1))
    assert len(list(batches(photographs(), preprocess, (3, 8, 8), 21, limit=21, workers=16))) == 1
    assert decoded == {Path(file).name: 1 for _, _, file in builtin._PHOTOGRAPHS}


def test_a_thousand_crops_are_distinct() -> None:
    samples = photographs()
    assert len(samples) == 1000
    assert len({sample.image[::9, ::9].tobytes() for sample in samples}) == 1000
    with pytest.raises(DataError, match="holds 1000"):
        take(samples, 1001)


def test_neighbouring_pixels_are_alike_as_in_nature() -> None:
    """Noise would have a correlation of 0."""
    for sample in take(photographs(), 7):
        grey = sample.image.mean(axis=2)
        assert np.corrcoef(grey[:, 1:].ravel(), grey[:, :-1].ravel())[0, 1] > 0.8


def test_crops_differ_in_size_place_and_side() -> None:
    # An image whose values are its own coordinates shows where a crop comes from.
    coordinates = np.moveaxis(np.mgrid[0:300, 0:451], 0, 2)
    crops = [builtin._crop(coordinates, seed) for seed in range(200)]
    steps = [crop[0, 1, 1] - crop[0, 0, 1] for crop in crops]
    assert 60 < steps.count(-1) < 140 and set(steps) == {-1, 1}
    sides = [len(crop) for crop in crops]
    assert min(sides) >= 180 and max(sides) <= 300 and len(set(sides)) > 50
    for crop, step in zip(crops, steps):
        top, left = crop[0, ::step][0]
        side = len(crop)
        np.testing.assert_array_equal(crop[:, ::step], coordinates[top : top + side, left : left + side])
    assert np.std([crop[..., 1].min() for crop in crops]) > 30


def test_digits_are_those_of_scikit_learn() -> None:
    bunch = sklearn_datasets.load_digits()
    train, test = digits("train"), digits("test")
    assert (len(train), len(test)) == (1437, 360)
    position = np.arange(len(bunch.target))
    for samples, chosen in ((test, position % 5 == 0), (train, position % 5 != 0)):
        read = list(samples)
        assert [sample.label for sample in read] == bunch.target[chosen].tolist()
        for sample, original in zip(read, bunch.images[chosen]):
            assert sample.image.shape == (32, 32, 3) and sample.image.dtype == np.uint8
            assert (sample.image == sample.image[..., :1]).all()
            enlarged = ndimage.zoom(original * 255 / 16, 4, order=1, mode="nearest", grid_mode=True)
            np.testing.assert_allclose(sample.image[..., 0], enlarged, atol=1.5)


def test_digits_have_two_splits() -> None:
    with pytest.raises(DataError, match="no split 'all'; choose train or test"):
        digits("all")


def test_a_missing_package_or_photograph_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "_PHOTOGRAPHS", (("scikit-image", "skimage", "data/absent.png"),))
    with pytest.raises(DataError, match=r"scikit-image here lacks absent\.png"):
        photographs()
    monkeypatch.setattr("quantkit.extras.find_spec", lambda _: None)
    with pytest.raises(
        ExtraMissing, match=r"need the package scikit-learn; .*'quantkit\[samples\]', or give your own sample"
    ):
        digits("test")
