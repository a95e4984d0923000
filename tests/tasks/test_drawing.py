"""Pictures of predictions, pixel by pixel."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.tasks.drawing import colour, with_boxes, with_classes
from tests.tasks.scenes import detections


def test_colours_are_those_of_voc() -> None:
    assert [colour(index) for index in (0, 1, 2, 3, 15, 20)] == [
        (0, 0, 0), (128, 0, 0), (0, 128, 0), (128, 128, 0), (192, 128, 128), (0, 64, 128),
    ]  # fmt: skip
    assert len({colour(index) for index in range(256)}) == 256


def test_frames_surround_detections() -> None:
    image = np.full((60, 80, 3), 7, np.uint8)
    drawn = with_boxes(image, detections(((20, 10, 60, 50), 0.9, 0)), ("cat", "dog"))
    assert drawn.shape == image.shape and (image == 7).all()
    paint = np.array(colour(1))
    for row, column in ((49, 20), (49, 59), (49, 40), (30, 20), (30, 59)):
        assert (drawn[row, column] == paint).all()
    for row, column in ((50, 40), (30, 60), (30, 19), (40, 40), (0, 0), (58, 78)):
        assert (drawn[row, column] == 7).all()


def test_detections_without_names_or_at_the_border_are_drawn() -> None:
    image = np.zeros((20, 20, 3), np.uint8)
    drawn = with_boxes(image, detections(((0, 0, 20, 20), 0.9, 5), ((3, 3, 3, 3), 0.8, 6)), ())
    assert (drawn[19, 0] == colour(6)).all() and (drawn[19, 19] == colour(6)).all()
    unnamed = detections(((0, 0, 20, 20), 0.9, 1))
    assert (with_boxes(image, unnamed, ("cat",)) == with_boxes(image, unnamed, ("cat", "1"))).all()


def test_labels_grow_with_the_image() -> None:
    heights = {}
    for side in (60, 300, 1200, 2400):
        drawn = with_boxes(np.zeros((side, 2 * side, 3), np.uint8), detections(((0, 0, 0, 0), 0.9, 0)), ("cat",))
        heights[side] = np.flatnonzero((drawn == colour(1)).all(axis=2).any(axis=1)).max()
    # Letters of a share of the shorter side, but never too small to read.
    assert heights[60] == heights[300] and 6 <= heights[300] <= 20
    assert 25 <= heights[1200] <= 60 and heights[2400] / heights[1200] == pytest.approx(2, rel=0.1)


def test_classes_tint_but_the_background_does_not() -> None:
    image = np.full((2, 2, 3), 100, np.uint8)
    drawn = with_classes(image, np.array([[0, 1], [-1, 2]]))
    assert (drawn[0, 0] == 100).all() and (drawn[1, 0] == 100).all()
    assert drawn[0, 1].tolist() == [round(0.45 * 100 + 0.55 * 128), 45, 45]
    assert drawn[1, 1].tolist() == [45, round(0.45 * 100 + 0.55 * 128), 45]
    assert (with_classes(image, np.full((2, 2), -1)) == 100).all()
