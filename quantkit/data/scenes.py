"""Scenes with known objects and without a download: handwritten digits over photographs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import TypeVar

import numpy as np

from quantkit.data.annotated import AnnotatedImages
from quantkit.data.boxes import Boxes, boxes_of, class_indices
from quantkit.data.builtin import digits, photographs
from quantkit.data.resizing import Size
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError

SIDE = 96
"""Pixels of a scene's sides."""

DIGITS = tuple("0123456789")
"""The names of the classes of objects; maps have the background before them."""

_SCENES = {"train": 4_000, "test": 400}

# The photographs' crops behind the scenes of a split, so that none is behind both.
_CROPS = {"train": range(800), "test": range(800, 1_000)}

_MOST_DIGITS, _SMALLEST, _LARGEST = 4, 22, 44
_INK, _GAP, _TRIES = 0.4, 2, 20

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Scene:
    """A scene: ``image``, uint8 of shape (96, 96, 3), its objects, and the class of each pixel, int64 (96, 96)."""

    image: np.ndarray
    boxes: Boxes
    classes: np.ndarray


def scene_images(split: str) -> Samples:
    """The images of the scenes, without what is true of them.

    Raises:
        DataError: there is no split but ``train`` (4,000 scenes) and ``test`` (400), or scikit-learn or scikit-image is
            missing.
    """
    scene = scenes(split)

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            yield Sample(scene(position).image, None, f"scene {position}")

    return Samples(_title(split), read, _SCENES[split], any_order=True, independent=True, builtin=True)


def scene_boxes(split: str, classes: Sequence[str] = ()) -> AnnotatedImages[Boxes]:
    """Scenes of one to four digits each, with their boxes; the classes are the digits.

    Args:
        split: ``train`` or ``test``.
        classes: the names of the classes in the order of the network's indices; empty for the digits.

    Raises:
        DataError: as for ``scene_images``; or a digit is none of the classes.
    """
    scene, known = scenes(split), tuple(classes) or DIGITS
    indices = class_indices(DIGITS, known, _title(split))
    of_digits = np.array([indices[digit] for digit in DIGITS])

    def truth(position: int) -> Boxes:
        boxes = scene(position).boxes
        return replace(boxes, labels=of_digits[boxes.labels])

    return _annotated(split, known, truth)


def scene_masks(split: str, classes: Sequence[str] = ()) -> AnnotatedImages[np.ndarray]:
    """The same scenes with the class of each pixel: the background, and the digits after it.

    Args:
        split: ``train`` or ``test``.
        classes: the names of the network's classes, of which there must be as many; empty for those of the scenes.

    Raises:
        DataError: as for ``scene_images``; or there is another number of classes.
    """
    scene, known = scenes(split), ("background", *DIGITS)
    if classes and len(classes) != len(known):
        raise DataError(
            f"the {_title(split)} have {len(known)} classes, the background and the digits, and the network tells "
            f"{len(classes)} apart; give the images that it was trained for"
        )
    return _annotated(split, known, lambda position: scene(position).classes)


def _title(split: str) -> str:
    return f"scenes of digits over photographs, split {split}"


def _annotated(split: str, classes: tuple[str, ...], truth: Callable[[int], T]) -> AnnotatedImages[T]:
    def size(position: int) -> Size:
        return SIDE, SIDE

    samples, crops = replace(scene_images(split), address=f"scenes:{split}"), len(_CROPS[split])
    # Scenes that lie over the same crop of a photograph are alike.
    return AnnotatedImages(samples, classes, size, truth, tuple(position % crops for position in range(len(samples))))


def scenes(split: str) -> Callable[[int], Scene]:
    """The scene at each position of a split, the same on every machine.

    Raises:
        DataError: as for ``scene_images``.
    """
    if split not in _SCENES:
        raise DataError(f"the scenes have no split {split!r}; choose train or test")
    written = tuple(digits(split))
    behind = photographs()
    crops = _CROPS[split]

    @lru_cache(maxsize=64)
    def scene(position: int) -> Scene:
        random = Random(f"{split} {position}")
        (crop,) = behind.read((crops[position % len(crops)],))
        return _composed(_background(crop.image, random), written, random, f"scene {position}")

    return scene


def _background(photograph: np.ndarray, random: Random) -> np.ndarray:
    """A photograph of the scene's size, darker, float64."""
    from PIL import Image

    small = Image.fromarray(photograph).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    return np.asarray(small, np.float64) * (0.4 + 0.4 * random.random())


def _composed(canvas: np.ndarray, written: tuple[Sample, ...], random: Random, name: str) -> Scene:
    """A scene with digits, no two of which touch."""
    classes = np.zeros((SIDE, SIDE), np.int64)
    corners: list[tuple[int, int, int, int]] = []
    labels: list[int] = []
    for _ in range(1 + int(random.random() * _MOST_DIGITS)):
        sample = written[int(random.random() * len(written))]
        ink = _ink(sample.image, _SMALLEST + int(random.random() * (_LARGEST - _SMALLEST + 1)))
        height, width = ink.shape
        colour = np.array([150 + 105 * random.random() for _ in range(3)])
        place = next((each for each in _places(random, ink.shape) if _is_free(classes, each, ink.shape)), None)
        if place is None:
            continue
        top, left = place
        window = (slice(top, top + height), slice(left, left + width))
        cover = np.minimum(1.0, 1.5 * ink)[..., None]
        canvas[window] = canvas[window] * (1 - cover) + colour * cover
        assert isinstance(sample.label, int)
        classes[window][ink > _INK] = 1 + sample.label
        corners.append((left, top, left + width, top + height))
        labels.append(sample.label)
    image = np.rint(np.clip(canvas, 0, 255)).astype(np.uint8)
    return Scene(image, boxes_of((SIDE, SIDE), corners, labels, [False] * len(labels), name), classes)


def _ink(digit: np.ndarray, side: int) -> np.ndarray:
    """How much of each pixel a digit of a size covers, from 0 to 1, cut to where it covers some."""
    from PIL import Image

    scaled = Image.fromarray(digit).resize((side, side), Image.Resampling.BILINEAR)
    ink = np.asarray(scaled, np.float64)[..., 0] / 255
    rows, columns = (np.flatnonzero((ink > _INK).any(axis=axis)) for axis in (1, 0))
    return ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _places(random: Random, shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Random places of a window's top and left."""
    for _ in range(_TRIES):
        yield int(random.random() * (SIDE - shape[0] + 1)), int(random.random() * (SIDE - shape[1] + 1))


def _is_free(classes: np.ndarray, place: tuple[int, int], shape: tuple[int, ...]) -> bool:
    top, left = (max(0, each - _GAP) for each in place)
    bottom, right = place[0] + shape[0] + _GAP, place[1] + shape[1] + _GAP
    return not classes[top:bottom, left:right].any()
