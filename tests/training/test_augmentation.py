"""Augmentation: what it varies, and what it leaves."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from quantkit.data.preprocess import Preprocess, apply
from quantkit.data.samples import Sample
from quantkit.errors import UserError
from quantkit.training.augmentation import NONE, Augmentation, augmented

PREPROCESS = Preprocess(resize=32, crop=24, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
SHAPE = (3, 24, 24)


def photograph(seed: int = 0, height: int = 40, width: int = 60) -> Sample:
    image = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    return Sample(image, 0, "photograph")


def varied(
    augmentation: Augmentation, sample: Sample, seed: int = 0, preprocess: Preprocess = PREPROCESS
) -> np.ndarray:
    return augmented(augmentation, preprocess, sample, SHAPE, Random(seed))


def test_the_result_depends_on_the_seed_alone() -> None:
    first, again, other = (varied(Augmentation(), photograph(), seed) for seed in (1, 1, 2))
    assert first.shape == SHAPE and first.dtype == np.float32
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_without_augmentation_an_image_is_as_for_inference() -> None:
    assert not NONE.changes
    sample = photograph()
    assert np.array_equal(varied(NONE, sample), apply(PREPROCESS, sample.image, "", SHAPE))
    flips = Augmentation(smallest_crop=1, colour=0)
    plain = apply(PREPROCESS, sample.image, "", SHAPE)
    found = [varied(flips, sample, seed) for seed in range(40)]
    mirrored = [np.array_equal(each, plain[:, :, ::-1]) for each in found]
    assert all(was or np.array_equal(each, plain) for was, each in zip(mirrored, found))
    assert 10 < sum(mirrored) < 30


def spans_of_part(width: int, height: int, smallest: float, seed: int) -> tuple[float, float]:
    """The width and height of a part: a ramp tells where it begins and ends."""
    across, down = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    sample = Sample(np.stack([across, down, across], -1).astype(np.uint8), 0, "ramp")
    part = varied(Augmentation(smallest, False, 0), sample, seed, Preprocess(scale=1.0))
    # Between the centres of the outermost of 24 pixels lie 23/24 of the part.
    return np.ptp(part[0]) * width / 255 * 24 / 23, np.ptp(part[1]) * height / 255 * 24 / 23


def test_parts_have_the_area_and_the_ratio_that_were_asked_for() -> None:
    areas = []
    for seed in range(60):
        across, down = spans_of_part(600, 400, 0.25, seed)
        areas.append(across * down / (600 * 400))
        assert 3 / 4 * 0.95 < across / down < 4 / 3 * 1.05
    assert 0.24 < min(areas) < 0.4 and 0.7 < max(areas) < 1.02


@pytest.mark.parametrize(("size", "largest"), [((600, 150), (200, 150)), ((150, 600), (150, 200))])
def test_of_narrow_images_the_largest_part_of_such_a_ratio_is_taken(
    size: tuple[int, int], largest: tuple[float, float]
) -> None:
    assert spans_of_part(*size, 0.9, 0) == pytest.approx(largest, rel=0.05)


def test_colours_change_within_bounds() -> None:
    grey = Sample(np.full((32, 32, 3), 100, np.uint8), 0, "grey")
    means = [
        varied(Augmentation(1, False, 0.4), grey, seed, Preprocess(crop=24, scale=1.0)).mean() for seed in range(50)
    ]
    # Of an even grey image, contrast and saturation change nothing.
    assert 59 <= min(means) < 75 and 125 < max(means) <= 141


@pytest.mark.parametrize("seed", range(8))
def test_brightness_contrast_and_saturation_are_multiplied_and_then_cut_off(seed: int) -> None:
    sample = Sample(np.random.default_rng(seed).integers(0, 256, (24, 24, 3), np.uint8), 0, "photograph")
    found = varied(Augmentation(1, False, 0.3), sample, seed, Preprocess(scale=1.0)).transpose(1, 2, 0)
    random, grey = Random(seed), np.array([0.299, 0.587, 0.114])
    brightness, contrast, saturation = (random.uniform(0.7, 1.3) for _ in range(3))
    expected = brightness * sample.image
    mean = (expected @ grey).mean()
    expected = mean + contrast * (expected - mean)
    own = (expected @ grey)[..., None]
    expected = own + saturation * (expected - own)
    # The result is rounded, and so is the mean of each channel.
    assert np.abs(found - np.clip(expected, 0, 255)).max() <= 0.5 + 0.5 * abs(brightness * (1 - contrast)) + 1e-4


def test_the_rotation_of_a_network_comes_last() -> None:
    turned = replace(PREPROCESS, rotate180=True)
    for augmentation in (Augmentation(), Augmentation(smallest_crop=1)):
        straight = varied(augmentation, photograph(), 3)
        assert np.array_equal(varied(augmentation, photograph(), 3, turned), straight[:, ::-1, ::-1])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"smallest_crop": 0}, "smallest_crop is 0; give a number from 0.01 to 1"),
        ({"colour": 1.5}, "colour is 1.5; give a number from 0 to 1"),
        ({"flip": 1}, "flip is 1; give True or False"),
    ],
)
def test_impossible_values_are_refused(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(UserError, match=words):
        Augmentation(**wrong)  # type: ignore[arg-type]
