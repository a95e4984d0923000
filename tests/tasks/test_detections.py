"""Detections, their overlaps and their places, against plain arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.data.placement import placement
from quantkit.data.preprocess import Preprocess
from quantkit.tasks.detections import above, as_objects, detections_of, difference, in_image, overlaps
from quantkit.tasks.suppression import CANDIDATES, KEPT, MAX_OVERLAP, suppressed
from tests.tasks.scenes import boxes, detections


def by_pixels(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union, counted on a grid."""
    y, x = np.mgrid[0:100, 0:100] + 0.5
    first, second = ((x > each[0]) & (x < each[2]) & (y > each[1]) & (y < each[3]) for each in (a, b))
    either = (first | second).sum()
    return float((first & second).sum() / either) if either else 0.0


def test_overlaps_are_counted_pixels() -> None:
    random = np.random.default_rng(0)
    first, second = np.rint(boxes(random, 6)), np.rint(boxes(random, 5))
    second[0] = first[0]
    second[1] = [5, 5, 5, 9]
    shared = overlaps(first, second)
    assert shared.shape == (6, 5) and shared[0, 0] == 1.0
    for i in range(6):
        for j in range(5):
            assert shared[i, j] == pytest.approx(by_pixels(first[i], second[j]))
    assert overlaps(first[:0], second).shape == (0, 5) and overlaps(first, second[:0]).shape == (6, 0)
    assert overlaps(second[[1]], second[[1]]).tolist() == [[0.0]]


def test_detections_are_ordered_by_score_and_then_as_they_came() -> None:
    ordered = detections_of(np.arange(16).reshape(4, 4), np.array([0.2, 0.9, 0.2, 0.5]), np.array([1.0, 2, 3, 4]))
    assert ordered.scores.tolist() == [0.9, 0.5, 0.2, 0.2] and ordered.labels.tolist() == [2, 4, 1, 3]
    assert ordered.boxes[:, 0].tolist() == [4, 12, 0, 8] and ordered.labels.dtype == np.int64
    assert above(ordered, 0.5).labels.tolist() == [2, 4] and len(above(ordered, 1)) == 0


def test_detections_come_back_into_the_image_and_end_there() -> None:
    placed = placement(Preprocess(fit="letterbox"), (40, 60), (120, 120))
    back = in_image(detections(((20, 40, 40, 60), 0.5, 1), ((-10, 0, 130, 120), 0.4, 0)), placed)
    assert back.boxes.tolist() == [[10, 10, 20, 20], [0, 0, 60, 40]]
    assert (back.scores.tolist(), back.labels.tolist()) == ([0.5, 0.4], [1, 0])


def test_weak_detections_need_not_be_seen() -> None:
    objects = as_objects(detections(((0, 0, 4, 4), 0.5, 1), ((1, 1, 3, 3), 0.49, 2)), (10, 12), 0.5)
    assert (objects.size, objects.ignored.tolist(), objects.labels.tolist()) == ((10, 12), [False, True], [1, 2])


def test_of_overlapping_detections_of_a_class_the_best_stays() -> None:
    corners = np.array([[0, 0, 10, 10], [0, 0, 10, 9], [0, 0, 10, 5], [40, 40, 50, 50]], float)
    scores = np.array([[0.6, 0.0], [0.9, 0.8], [0.7, 0.3], [0.01, 0.5]])
    kept = suppressed(corners, scores)
    # The third box shares 5/9 with the second, which is better; the first class does not rival the second.
    assert [(label, score) for label, score in zip(kept.labels.tolist(), kept.scores.tolist())] == [
        (0, 0.9), (1, 0.8), (1, 0.5),
    ]  # fmt: skip


def test_suppression_is_greedy_and_bounded() -> None:
    random = np.random.default_rng(4)
    corners, scores = boxes(random, 600), random.uniform(0, 1, (600, 2))
    kept = suppressed(corners, scores)
    assert len(kept) <= KEPT and np.all(np.diff(kept.scores) <= 0)
    ranked = sorted(
        ((scores[box, label], box, label) for box in range(600) for label in range(2) if scores[box, label] > 0.01),
        key=lambda each: -each[0],
    )[:CANDIDATES]
    chosen: list[tuple[float, int, int]] = []
    for score, box, label in ranked:
        if all(other != label or by_formula(corners[box], corners[one]) <= MAX_OVERLAP for _, one, other in chosen):
            chosen.append((score, box, label))
    assert kept.scores.tolist() == [score for score, _, _ in chosen][:KEPT]


def test_the_bounds_of_suppression_are_those_of_gluoncvs_ssd() -> None:
    """Overlaps up to 0.45 and scores above 0.01 stay; 400 are considered and 100 kept."""
    for bottom, number in ((4.5, 2), (4.6, 1)):
        assert len(suppressed(np.array([[0, 0, 10, 10], [0, 0, 10, bottom]]), np.array([[0.9], [0.8]]))) == number
    assert suppressed(np.array([[0, 0, 9, 9.0]] * 2), np.array([[0.01, 0.011], [0, 0]])).labels.tolist() == [1]
    apart = np.arange(150)[:, None] * 10 + np.array([0, 0, 9, 9.0])
    assert len(suppressed(apart, np.linspace(0.9, 0.5, 150)[:, None])) == 100
    for copies, number in ((399, 2), (400, 1)):
        corners = np.array([[0, 0, 9, 9.0]] * copies + [[20, 20, 29, 29]])
        assert len(suppressed(corners, np.linspace(0.9, 0.5, copies + 1)[:, None])) == number


def test_another_bound_of_overlaps_keeps_more_or_fewer() -> None:
    corners, scores = np.array([[0, 0, 10, 10], [0, 0, 10, 3.0]]), np.array([[0.9], [0.8]])
    assert [len(suppressed(corners, scores, bound)) for bound in (0.29, 0.3, 1.0)] == [1, 2, 2]


def by_formula(a: np.ndarray, b: np.ndarray) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    shared = max(0.0, width) * max(0.0, height)
    return float(shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared))


def test_nothing_seen_is_nothing_kept() -> None:
    kept = suppressed(np.zeros((3, 4)), np.zeros((3, 2)))
    assert len(kept) == 0 and kept.boxes.shape == (0, 4)


def test_detections_are_as_far_apart_as_boxes_scores_and_classes_are() -> None:
    cat, dog = ([0, 0, 4, 4], 0.8, 0), ([10, 10, 14, 14], 0.4, 1)
    both, none = detections(cat, dog), detections()
    assert difference(both, both) == difference(none, none) == 0.0
    assert difference(both, none) == difference(none, both) == 1.0
    assert difference(detections(cat), detections(([0, 0, 4, 4], 0.8, 1))) == 1.0
    # Half of the box, half of the score, one of two.
    assert difference(detections(cat), detections(([0, 0, 4, 2], 0.8, 0))) == pytest.approx(0.5)
    assert difference(detections(cat), detections(([0, 0, 4, 4], 0.4, 0))) == pytest.approx(1 - 0.8 / 1.2)
    assert difference(both, detections(cat)) == difference(detections(cat), both) == pytest.approx(1 - 1.6 / 2.0)
