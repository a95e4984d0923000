"""Scenes of digits: what is said to be in them is there."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.data.annotated import AnnotatedImages
from quantkit.data.annotated_sources import load_boxes, load_masks
from quantkit.data.samples import Samples
from quantkit.data.scenes import DIGITS, SIDE, scene_boxes, scene_images, scene_masks
from quantkit.data.sources import load_data
from quantkit.errors import DataError


def test_boxes_are_those_of_the_pixels_of_each_class() -> None:
    boxes, masks = scene_boxes("test"), scene_masks("test")
    assert boxes.classes == DIGITS and masks.classes == ("background", *DIGITS)
    seen = set()
    for position in range(40):
        truth, classes = boxes.truth(position), masks.truth(position)
        assert classes.shape == boxes.size(position) == masks.size(position) == (SIDE, SIDE)
        assert 1 <= len(truth) <= 4 and not truth.ignored.any()
        for label in np.unique(truth.labels):
            rows, columns = np.nonzero(classes == label + 1)
            of_label = truth.corners[truth.labels == label]
            assert [columns.min(), rows.min()] == of_label[:, :2].min(axis=0).tolist()
            assert [columns.max() + 1, rows.max() + 1] == of_label[:, 2:].max(axis=0).tolist()
        assert set(np.unique(classes)) == {0, *(truth.labels + 1)}
        seen |= set(truth.labels.tolist())
    assert seen == set(range(10))


def test_digits_are_brighter_than_what_is_behind_them() -> None:
    images = [sample.image for sample, _ in zip(scene_images("test"), range(40))]
    classes = [scene_masks("test").truth(position) for position in range(40)]
    inside = np.mean([image[mask > 0].mean() for image, mask in zip(images, classes)])
    outside = np.mean([image[mask == 0].mean() for image, mask in zip(images, classes)])
    assert images[0].shape == (SIDE, SIDE, 3) and images[0].dtype == np.uint8
    assert inside > outside + 60


def test_scenes_are_the_same_each_time_and_differ_from_each_other() -> None:
    one, other = ([sample.image for sample, _ in zip(scene_images("train"), range(20))] for _ in range(2))
    assert all((a == b).all() for a, b in zip(one, other))
    test = [sample.image for sample, _ in zip(scene_images("test"), range(20))]
    assert len({image.tobytes() for image in [*one, *test]}) == 40
    assert (len(scene_images("train")), len(scene_images("test"))) == (4_000, 400)
    with pytest.raises(DataError, match="scenes have no split 'val'; choose train or test"):
        scene_images("val")


def test_the_networks_classes_count() -> None:
    by_digit, turned = scene_boxes("test"), load_boxes("scenes:test", ("none", *reversed(DIGITS)))
    assert isinstance(turned, AnnotatedImages) and turned.classes == ("none", *reversed(DIGITS))
    for position in range(8):
        digits, others = by_digit.truth(position), turned.truth(position)
        assert others.labels.tolist() == (10 - digits.labels).tolist()
        np.testing.assert_array_equal(others.corners, digits.corners)
    with pytest.raises(DataError, match=r"split test has an object of class '0', which is none of the 2 classes"):
        load_boxes("scenes:test", ("cat", "dog"))


def test_maps_of_scenes_need_as_many_classes() -> None:
    assert isinstance(load_masks("scenes:test", tuple(map(str, range(11)))), AnnotatedImages)
    for number in (3, 21):
        with pytest.raises(DataError, match=f"have 11 classes, .*, and the network tells {number} apart; give the ima"):
            load_masks("scenes:test", tuple(map(str, range(number))))


def test_scenes_have_a_name() -> None:
    assert load_data("scenes:test").name == "scenes of digits over photographs, split test"
    for loaded in (load_boxes("scenes:test"), load_masks("scenes:test")):
        assert isinstance(loaded, AnnotatedImages) and loaded.samples.size == 400
    assert isinstance(load_boxes("digits:test"), Samples)
