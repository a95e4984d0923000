"""Segmentation: maps, confusion and scores, against GluonCV and counting."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.data.placement import placement
from quantkit.data.preprocess import Preprocess
from quantkit.errors import EngineError
from quantkit.tasks.confusion import confusion_matrix, mean_intersection_over_union
from quantkit.tasks.segmentation import Segmentation, is_segmentation

CLASSES = 4


def maps(seed: int, shape: tuple[int, ...] = (5, 9, 11)) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    truth = random.integers(-1, CLASSES, shape)
    return truth, np.where(random.random(shape) < 0.7, np.maximum(truth, 0), random.integers(0, CLASSES, shape))


def test_a_confusion_matrix_counts_pairs_and_adds_up() -> None:
    truth, predicted = maps(0)
    predicted[0, 0] = -1
    matrix = confusion_matrix(truth, predicted, CLASSES)
    for row in range(CLASSES):
        for column in range(CLASSES):
            assert matrix[row, column] == ((truth == row) & (predicted == column)).sum()
    parts = [confusion_matrix(a, b, CLASSES) for a, b in zip(truth, predicted)]
    np.testing.assert_array_equal(sum(parts), matrix)


def test_the_scores_are_those_of_gluoncv(engine: None) -> None:
    import mxnet as mx
    from gluoncv.utils.metrics.segmentation import SegmentationMetric

    truth, predicted = maps(1)
    judge = SegmentationMetric(CLASSES)
    judge.update(mx.nd.array(truth), mx.nd.array(np.moveaxis(np.eye(CLASSES)[predicted], -1, 1)))
    accuracy, union = judge.get()
    task = Segmentation(CLASSES)
    measures = task.measures([task.compare(a, b) for a, b in zip(truth, predicted)])
    assert [measure.name for measure in measures] == ["mIoU", "pixel accuracy"]
    assert measures[0].value == pytest.approx(union, abs=1e-12)
    assert measures[1].value == pytest.approx(accuracy, abs=1e-12)


def test_a_weight_is_as_good_as_repeating_an_image() -> None:
    truth, predicted = maps(2)
    task, weights = Segmentation(CLASSES), np.array([0, 3, 1, 0, 2])
    images = [task.compare(a, b) for a, b in zip(truth, predicted)]
    repeated = [image for image, times in zip(images, weights) for _ in range(times)]
    for one, other in zip(task.measures(images), task.measures(repeated)):
        assert one.weighted(weights.astype(float)) == pytest.approx(other.value)


def test_a_class_that_nobody_sees_is_left_out() -> None:
    assert mean_intersection_over_union(np.array([2, 0]), np.array([4, 0]), np.array([2, 0])) == 0.5
    assert np.isnan(mean_intersection_over_union(np.zeros(2), np.zeros(2), np.zeros(2)))
    nothing = Segmentation(2).compare(np.full((2, 2), -1), np.zeros((2, 2), int))
    assert all(np.isnan(measure.value) for measure in Segmentation(2).measures([nothing]))


def test_the_highest_score_is_the_class_on_the_images_own_pixels() -> None:
    scores = np.zeros((2, 3, 4, 6), np.float32)
    scores[0, 2, :2, :4] = scores[1, 1] = 1
    first, second = Segmentation(3).decode([scores, np.zeros((2, 1))])
    assert first.tolist() == [[2, 2, 2, 2, 0, 0]] * 2 + [[0] * 6] * 2 and (second == 1).all()
    placed = placement(Preprocess(fit="stretch"), (2, 3), (4, 6))
    assert Segmentation(3).in_image(first, placed).tolist() == [[2, 2, 0], [0, 0, 0]]
    cropped = placement(Preprocess(crop=2), (2, 4), (2, 2))
    assert Segmentation(3).in_image(np.ones((2, 2), np.int64), cropped).tolist() == [[-1, 1, 1, -1]] * 2


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_maps_without_numbers_are_refused(value: float) -> None:
    scores = np.zeros((2, 3, 4, 6), np.float32)
    scores[1, 2, 3, 5] = value
    with pytest.raises(EngineError, match="computes a map of classes with NaN or infinite values; check the images"):
        Segmentation(3).decode([scores])


def test_what_is_a_map_of_classes() -> None:
    assert is_segmentation([(21, 480, 480), (21, 480, 480)])
    for other in ((21,), (1, 4, 4), (21, 1, 1), (100, 4)):
        assert not is_segmentation([other])
