"""What detectors put out, and how they are judged by it."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.data.boxes import Boxes
from quantkit.errors import UserError
from quantkit.tasks.choose import make_task, task_named, task_of
from quantkit.tasks.detection import Detection, classes_of, detection_form
from quantkit.tasks.segmentation import Segmentation
from tests.requirements import requires
from tests.tasks.scenes import SIZE, detections, scenes

SUPPRESSED = [(5, 1), (5, 1), (5, 4)]


def test_the_form_of_outputs() -> None:
    assert detection_form(SUPPRESSED) == detection_form([*SUPPRESSED, (5, 21, 14, 14)]) == "suppressed"
    assert detection_form([(40,), (40,), (40, 4)]) == "suppressed"
    assert detection_form([(50, 3), (50, 4)]) == detection_form([(50, 4), (50, 3)]) == "all boxes"
    assert [classes_of("all boxes", shapes) for shapes in ([(50, 3), (50, 4)], [(50, 4), (50, 3)])] == [2, 2]
    assert classes_of("all boxes", [(50, 4), (50, 4)]) == 3 and classes_of("suppressed", SUPPRESSED) is None
    others = ([(10,)], [(5, 1), (5, 4), (5, 1)], [(5, 1), (6, 1), (5, 4)], [(50, 1), (50, 4)], [(50, 3), (49, 4)])
    for shapes in (*others, [(), (), ()]):
        assert detection_form(shapes) is None


def test_classes_and_scores_may_have_no_axis_of_their_own() -> None:
    """As in CenterNet."""
    assert detection_form([(5,), (5,), (5, 4)]) == "suppressed"
    assert detection_form([(5,), (4,), (5, 4)]) is None
    ids, scores = np.array([[1, -1]], np.float32), np.array([[0.5, 0.9]], np.float32)
    (seen,) = Detection("suppressed", (10, 10), (), 3).decode([ids, scores, np.ones((1, 2, 4), np.float32)])
    assert (seen.labels.tolist(), seen.scores.tolist()) == ([1], [0.5])


def test_padding_is_no_detection() -> None:
    ids = np.array([[[1], [-1], [0], [-1]], [[-1], [-1], [-1], [2]]], np.float32)
    scores = np.array([[[0.5], [-1], [0.75], [0.9]], [[0.9], [0.9], [0.9], [0.25]]], np.float32)
    boxes = np.arange(32, dtype=np.float32).reshape(2, 4, 4)
    first, second = Detection("suppressed", (10, 10), (), 3).decode([ids, scores, boxes])
    assert (first.labels.tolist(), first.scores.tolist()) == ([0, 1], [0.75, 0.5])
    assert first.boxes.tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert (second.labels.tolist(), second.boxes.tolist()) == ([2], [[28, 29, 30, 31]])


@pytest.mark.parametrize("boxes_first", [False, True])
def test_boxes_in_shares_become_pixels_and_the_background_none(boxes_first: bool) -> None:
    scores = np.array([[[0.9, 0.1, 0.0], [0.2, 0.1, 0.7]]], np.float32)
    boxes = np.array([[[0, 0, 1, 1], [0.25, 0.5, 0.5, 1]]], np.float32)
    outputs = [boxes, scores] if boxes_first else [scores, boxes]
    (seen,) = Detection("all boxes", (20, 40), (), 2).decode(outputs)
    assert seen.labels.tolist() == [1, 0, 0]
    np.testing.assert_allclose(seen.scores, [0.7, 0.1, 0.1], rtol=1e-6)
    assert seen.boxes.tolist() == [[10, 10, 20, 20], [0, 0, 40, 20], [10, 10, 20, 20]]


def test_what_is_seen_with_a_score_of_half_should_be_seen() -> None:
    seen = detections(((0, 0, 9, 9), 0.5, 0), ((20, 0, 29, 9), 0.49, 0))
    assert Detection("suppressed", SIZE, (), 3).as_truth(seen, SIZE).ignored.tolist() == [False, True]


def test_a_network_agrees_wholly_with_itself() -> None:
    task = Detection("suppressed", SIZE, (), 3)
    # As after suppression: no two detections of a class overlap much.
    apart = [detections(*(((10 * k, 0, 10 * k + 9, 9), 1 - k / 10, k % 3) for k in range(8))) for _ in range(2)]
    compared = [task.compare(task.as_truth(each, SIZE), each) for each in apart]
    (measure,) = task.agreement(compared)
    assert (measure.name, measure.value) == ("mAP of agreement", 1.0)
    # Without the confident ones, it disagrees; without the weak ones, it does not.
    weak, strong = (
        [detections(*((tuple(c), s, k) for c, s, k in zip(e.boxes, e.scores, e.labels) if (s >= 0.5) == kept))
         for e in apart]
        for kept in (False, True)
    )  # fmt: skip
    for seen, value in ((weak, 0.0), (strong, 1.0)):
        pairs = [task.compare(task.as_truth(one, SIZE), other) for one, other in zip(apart, seen)]
        assert task.agreement(pairs)[0].value == value


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_no_detection(value: float) -> None:
    ids, scores = np.zeros((1, 3, 1), np.float32), np.array([[[0.5], [0.9], [0.8]]], np.float32)
    corners = np.array([[[0, 0, 10, 10], [0, 0, 10, 10], [0, 0, 10, 10]]], np.float32)
    scores[0, 1], corners[0, 2, 2] = value, value
    (seen,) = Detection("suppressed", (20, 20), (), 1).decode([ids, scores, corners])
    assert (seen.scores.tolist(), seen.boxes.tolist()) == ([0.5], [[0, 0, 10, 10]])
    rows = np.concatenate([1 - scores, scores], axis=2)
    (seen,) = Detection("all boxes", (20, 20), (), 1).decode([rows, corners / 20])
    assert (seen.scores.tolist(), seen.boxes.tolist()) == ([0.5], [[0, 0, 10, 10]])


def test_a_class_beyond_all_is_refused() -> None:
    task = Detection("suppressed", SIZE, (), None)
    for label, refused in ((9_999, False), (10_000, True), (10**18, True)):
        image = task.compare(Boxes(SIZE, np.empty((0, 4)), np.empty(0, np.int64), np.empty(0, bool)), detections(
            ((0, 0, 9, 9), 0.9, label)
        ))  # fmt: skip
        if not refused:
            assert np.isnan(task.agreement([image])[0].value)
            continue
        with pytest.raises(UserError, match=f"a detection of class {label}, more than any detector has; give the task"):
            task.agreement([image])
    ids = np.array([[[np.inf], [1]]], np.float32)
    (seen,) = task.decode([ids, np.ones((1, 2, 1), np.float32), np.ones((1, 2, 4), np.float32)])
    assert seen.labels.tolist() == [1]


def test_a_box_of_nan_is_right_by_no_rules() -> None:
    requires("pycocotools")
    truth = Boxes((20, 20), np.array([[0, 0, 10, 10.0]]), np.array([0]), np.array([False]))
    outputs = [np.zeros((1, 1, 1)), np.ones((1, 1, 1)), np.full((1, 1, 4), np.nan)]
    for rules in ("voc", "coco"):
        task = Detection("suppressed", (20, 20), (), 1, rules)  # type: ignore[arg-type]
        (seen,) = task.decode(outputs)
        assert [each.value for each in task.measures([(truth, seen)])] == [0.0, 0.0]


def test_whose_rules_count() -> None:
    images = scenes(1)
    voc = Detection("suppressed", SIZE, (), 3).measures(images)
    assert [measure.name for measure in voc] == ["VOC12 mAP", "VOC07 mAP"]
    requires("pycocotools")
    coco = Detection("suppressed", SIZE, (), 3, "coco").measures(images)
    assert [measure.name for measure in coco] == ["COCO AP", "COCO AP50"]
    assert 0 < coco[0].value < coco[1].value < 1


def test_an_overlap_of_exactly_half_is_enough() -> None:
    truth = Boxes((20, 20), np.array([[0, 0, 10, 10.0]]), np.array([0]), np.array([False]))
    task = Detection("suppressed", (20, 20), (), 1)
    for right, value in ((5.0, 1.0), (4.9, 0.0)):
        assert task.measures([(truth, detections(((0, 0, 10, right), 0.9, 0)))])[0].value == value


def test_the_task_of_outputs() -> None:
    assert [task_of(shapes) for shapes in (SUPPRESSED, [(21, 8, 8)], [(10,)])] == ["detection", "segmentation", None]
    assert make_task("detection", SUPPRESSED, (3, 8, 9), "net", ("a", "b")) == Detection(
        "suppressed", (8, 9), ("a", "b"), 2
    )
    assert make_task("detection", [(9, 3), (9, 4)], (3, 8, 9), "net") == Detection("all boxes", (8, 9), (), 2)
    assert make_task("segmentation", [(21, 8, 8)], (3, 8, 8), "net") == Segmentation(21)
    assert task_named("segmentation") == "segmentation"


def test_outputs_that_do_not_fit_the_task_are_named() -> None:
    with pytest.raises(UserError, match=r"^detection needs outputs that are classes, .*; net puts out \(10,\) for"):
        make_task("detection", [(10,)], (3, 8, 8), "net")
    with pytest.raises(UserError, match=r"^segmentation needs outputs that are scores of shape \(classes, rows, colu"):
        make_task("segmentation", SUPPRESSED, (3, 8, 8), "net")
    with pytest.raises(UserError, match=r"scores of 2 classes besides the background, and 3 have names"):
        make_task("detection", [(9, 3), (9, 4)], (3, 8, 9), "net", ("a", "b", "c"))
    with pytest.raises(UserError, match=r"net puts out scores of 21 classes, and 3 have names; give as many names"):
        make_task("segmentation", [(21, 8, 8)], (3, 8, 8), "net", ("a", "b", "c"))
    with pytest.raises(UserError, match=r"net reads inputs of shape \(8,\), not images"):
        make_task("detection", SUPPRESSED, (8,), "net")
    with pytest.raises(UserError, match="there is no task 'cooking'; give detection or segmentation or pose"):
        task_named("cooking")
    with pytest.raises(UserError, match=r"net is for depth, which evaluate\(\) judges; call that, or give detection"):
        task_named("depth", "net")
    with pytest.raises(UserError, match="net does not say which task it is for; give detection or"):
        task_named(None, "net")
