"""Sample images without a download: photographs and digits that ship with scikit-image and scikit-learn."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any

import numpy as np

from quantkit.data.arrays import arrays
from quantkit.data.decode import decode
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError
from quantkit.extras import require

PHOTOGRAPHS = "built-in photographs (scikit-image, scikit-learn)"
"""The name of the default samples."""

_PHOTOGRAPHS = (
    ("scikit-image", "skimage", "data/chelsea.png"),
    ("scikit-learn", "sklearn", "datasets/images/china.jpg"),
    ("scikit-image", "skimage", "data/coffee.png"),
    ("scikit-image", "skimage", "data/astronaut.png"),
    ("scikit-learn", "sklearn", "datasets/images/flower.jpg"),
    ("scikit-image", "skimage", "data/motorcycle_left.png"),
    ("scikit-image", "skimage", "data/rocket.jpg"),
)
_DIGITS = ("scikit-learn", "sklearn", "datasets/data/digits.csv.gz")
_CROPS = 1000
_SMALLEST_CROP = 0.6
_DIGIT_SIZE = 32
_TEST_EVERY = 5


def photographs() -> Samples:
    """1,000 square crops of seven colour photographs: a cat, a temple, a cup, a person, a flower, a machine, a rocket.

    The crops take turns among the photographs, so any seven neighbours cover all. Their side is 60
    to 100 % of the photograph's short side; size, place and mirroring differ from crop to crop and
    are the same on every machine. No labels.

    Raises:
        DataError: scikit-image or scikit-learn is missing, or lacks a photograph.
    """
    files = [_shipped(*photograph) for photograph in _PHOTOGRAPHS]
    decoding = {file: Lock() for file in files}

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            file = files[position % len(files)]
            # One thread decodes; others that want crops of the same photograph wait for it.
            with decoding[file]:
                photograph = _photograph(file)
            yield Sample(_crop(photograph, position), None, f"crop {position} of {file.name}")

    return Samples(PHOTOGRAPHS, read, _CROPS, any_order=True, independent=True, builtin=True)


def digits(split: str) -> Samples:
    """The 1,797 handwritten digits of scikit-learn, enlarged to 32 x 32 RGB, with labels 0 to 9.

    Every fifth, from the first on, belongs to the split ``test`` (360), the others to ``train`` (1,437).

    Raises:
        DataError: there is no such split, or scikit-learn is missing.
    """
    if split not in ("train", "test"):
        raise DataError(f"the digits have no split {split!r}; choose train or test")
    with gzip.open(_shipped(*_DIGITS), "rt") as file:
        table = np.loadtxt(file, delimiter=",").astype(np.int64)
    test = np.arange(len(table)) % _TEST_EVERY == 0
    table = table[test if split == "test" else ~test]
    # The pixels run from 0 to 16.
    pixels = np.rint(table[:, :-1] * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8)
    return replace(arrays(_enlarged(pixels), table[:, -1], f"scikit-learn digits, split {split}"), builtin=True)


def _shipped(distribution: str, package: str, file: str) -> Path:
    """The path of a file inside an installed package, which is not imported."""
    require("samples", package, "the built-in samples", "give your own sample data")
    spec = find_spec(package)
    locations = spec.submodule_search_locations if spec else None
    path = Path(next(iter(locations or ()), "")) / file
    if not path.is_file():
        raise DataError(
            f"{distribution} here lacks {path.name}, which the built-in samples need; "
            "install another version, or give your own sample data"
        )
    return path


@lru_cache(maxsize=len(_PHOTOGRAPHS))
def _photograph(file: Path) -> np.ndarray[Any, Any]:
    """The pixels of a photograph, decoded once."""
    return decode(file, file.name)


def _crop(image: np.ndarray[Any, Any], seed: int) -> np.ndarray[Any, Any]:
    """A square part of ``image`` drawn with ``seed``, mirrored every other time on average."""
    random = Random(seed)
    height, width = image.shape[:2]
    side = round(min(height, width) * (_SMALLEST_CROP + (1 - _SMALLEST_CROP) * random.random()))
    top = int(random.random() * (height - side + 1))
    left = int(random.random() * (width - side + 1))
    crop = image[top : top + side, left : left + side]
    return np.ascontiguousarray(crop[:, ::-1] if random.random() < 0.5 else crop)


def _enlarged(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Grey images (samples, height, width) resized to ``_DIGIT_SIZE``, as RGB."""
    from PIL import Image

    size = (_DIGIT_SIZE, _DIGIT_SIZE)
    grey = np.stack([np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BILINEAR)) for image in pixels])
    return np.repeat(grey[..., None], 3, axis=3)
