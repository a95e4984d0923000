"""How a network's boxes lie on a reference's: which are found, and how far they are away."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.tasks.box_agreement import BoxAgreement, box_agreement, found_again
from quantkit.tasks.detections import Detections
from tests.tasks.scenes import detections

CAT, DOG, HEN = ([0, 0, 10, 10], 0.9, 0), ([20, 20, 30, 30], 0.8, 1), ([40, 40, 50, 50], 0.7, 2)
REFERENCE = detections(CAT, DOG, HEN)


def agreed(*pairs: tuple[Detections, Detections]) -> BoxAgreement:
    result = box_agreement([found_again(*pair) for pair in pairs])
    assert result is not None
    return result


def test_boxes_of_the_same_class_are_found_and_measured_in_any_order() -> None:
    other = detections(([20, 20, 30, 32], 0.85, 1), ([0, 0, 10, 9], 0.83, 0), ([40, 40, 50, 50], 0.7, 1))
    result = agreed((REFERENCE, other), (detections(DOG), detections(DOG)))
    assert (result.detections, result.found) == (4, 3)
    assert result.overlap == pytest.approx((10 / 12 + 0.9 + 1) / 3)
    assert (result.edges, result.scores) == (2.0, pytest.approx(0.07))
    assert result.text(0.9) == (
        "3 of 4 detections found, mean overlap 0.911 (0.9 is needed), edges at most 2 pixels and scores at most 0.07 "
        "away"
    )


def test_each_box_is_found_once_and_by_the_best() -> None:
    better, worse = ([0, 0, 10, 8], 0.9, 0), ([0, 0, 10, 10], 0.6, 0)
    result = agreed((detections(worse, better), detections(worse)))
    assert (result.detections, result.found, result.overlap) == (2, 1, pytest.approx(0.8))
    # Of several the nearest one, whatever its score.
    result = agreed((detections(worse), detections(better, ([0, 0, 10, 9], 0.1, 0))))
    assert (result.overlap, result.scores) == (pytest.approx(0.9), pytest.approx(0.5))


@pytest.mark.parametrize(("bottom", "found"), [(5.0, 1), (4.9, 0)])
def test_half_of_a_box_is_the_box(bottom: float, found: int) -> None:
    assert agreed((detections(CAT), detections(([0, 0, 10, bottom], 0.9, 0)))).found == found


def test_where_nothing_is_found_nothing_is_measured() -> None:
    nothing = agreed((REFERENCE, detections()))
    assert nothing == BoxAgreement(3, 0, None, None, None)
    assert nothing.text(0.9) == "0 of 3 detections found"
    assert agreed((detections(CAT), detections(DOG))).found == 0
    assert agreed((detections(CAT), detections())).text(0.9) == "0 of 1 detection found"


def test_where_the_reference_detects_nothing_there_is_nothing_to_find() -> None:
    assert found_again(detections(), REFERENCE).shape == (0, 3)
    assert box_agreement([found_again(detections(), REFERENCE), found_again(detections(), detections())]) is None


def test_random_boxes_are_their_own() -> None:
    random = np.random.default_rng(0)
    start = random.uniform(0, 50, (20, 2))
    listed = [([*first, *(first + 20)], float(random.random()), int(random.integers(3))) for first in start]
    same = agreed((detections(*listed), detections(*reversed(listed))))
    assert (same.detections, same.found, same.overlap, same.edges, same.scores) == (20, 20, 1.0, 0.0, 0.0)
