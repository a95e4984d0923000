"""Average precision by VOC's and COCO's rules, against GluonCV, pycocotools, and images that are really repeated."""

from __future__ import annotations

import contextlib
import io
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from quantkit.data.boxes import Boxes
from quantkit.tasks.average_precision import (
    RIGHT,
    WRONG,
    Matches,
    area,
    eleven_points,
    hundred_and_one_points,
    mean_average_precision,
)
from quantkit.tasks.coco_ap import coco_matches
from quantkit.tasks.detections import detections_of
from quantkit.tasks.voc_map import Seen, voc_matches
from tests.requirements import requires
from tests.tasks.scenes import CLASSES, SIZE, boxes, scenes

VOC = {"VOC12": area, "VOC07": eleven_points}


def voc(images: list[Seen], rule: Any) -> Any:
    return mean_average_precision("mAP", len(images), voc_matches(images, CLASSES), rule)


@pytest.mark.parametrize("seed", range(5))
def test_map_is_that_of_gluoncv(engine: None, seed: int) -> None:
    from gluoncv.utils.metrics.voc_detection import VOC07MApMetric, VOCMApMetric

    images = scenes(seed)
    for rule, judge in ((area, VOCMApMetric()), (eleven_points, VOC07MApMetric())):
        for truth, seen in images:
            # GluonCV's boxes end with their last pixel.
            judge.update(
                (seen.boxes - [0, 0, 1, 1])[None],
                seen.labels[None, :, None],
                seen.scores[None, :, None],
                (truth.corners - [0, 0, 1, 1])[None],
                truth.labels[None, :, None],
                truth.ignored[None, :, None],
            )
        assert voc(images, rule).value == pytest.approx(judge.get()[1], abs=1e-12)


def entries(images: list[Seen], objects: bool) -> list[dict[str, Any]]:
    """The objects, or the detections, as COCO lists them."""
    listed: list[dict[str, Any]] = []
    for image, (truth, seen) in enumerate(images, 1):
        corners, labels = (truth.corners, truth.labels) if objects else (seen.boxes, seen.labels)
        for place, ((left, top, right, bottom), label) in enumerate(zip(corners.tolist(), labels.tolist())):
            width, height = right - left, bottom - top
            entry = {"image_id": image, "category_id": 1 + label, "bbox": [left, top, width, height]}
            told = {"iscrowd": int(truth.ignored[place])} if objects else {"score": seen.scores[place]}
            listed.append({"id": 1 + len(listed), "area": width * height, **entry, **told})
    return listed


def crowded() -> Seen:
    """130 detections, of which COCO counts the best 100; the last 50 are right."""
    random = np.random.default_rng(9)
    corners = boxes(random, 130)
    scores = np.linspace(0.9, 0.1, 130)
    objects = Boxes(SIZE, corners[80:], np.zeros(50, np.int64), np.zeros(50, bool))
    return objects, detections_of(corners, scores, np.zeros(130, np.int64))


@pytest.mark.parametrize("seed", range(5))
def test_ap_is_that_of_pycocotools(seed: int) -> None:
    requires("pycocotools")
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    images = [*scenes(seed), crowded()]
    matches = coco_matches(images, CLASSES)
    ours = mean_average_precision("AP", len(images), matches, hundred_and_one_points).value
    truth, seen = COCO(), COCO()
    with contextlib.redirect_stdout(io.StringIO()):
        for side, objects in ((truth, True), (seen, False)):
            side.dataset = {
                "images": [{"id": 1 + place} for place in range(len(images))],
                "categories": [{"id": 1 + label} for label in range(CLASSES)],
                "annotations": entries(images, objects),
            }
            side.createIndex()
        judge = COCOeval(truth, seen, "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    assert ours == pytest.approx(judge.stats[0], abs=1e-9)
    halves = [Matches(each.images, each.outcomes[:1], each.objects) for each in matches]
    at_half = mean_average_precision("AP50", len(images), halves, hundred_and_one_points)
    assert at_half.value == pytest.approx(judge.stats[1], abs=1e-9)


def test_coco_tells_nothing_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    requires("pycocotools")
    coco_matches(scenes(0, 2), CLASSES)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("kind", ["VOC12", "VOC07", "COCO"])
def test_a_weight_is_as_good_as_repeating_an_image(kind: str) -> None:
    if kind == "COCO":
        requires("pycocotools")
    images = scenes(7)
    weights = np.random.default_rng(1).integers(0, 4, len(images))
    repeated = [image for image, times in zip(images, weights) for _ in range(times)]

    def value(chosen: list[Seen], times: np.ndarray) -> float:
        if kind == "COCO":
            matches = coco_matches(chosen, CLASSES)
            measure = mean_average_precision("AP", len(chosen), matches, hundred_and_one_points)
        else:
            measure = voc(chosen, VOC[kind])
        return measure.weighted(times.astype(float))

    assert value(images, weights) == pytest.approx(value(repeated, np.ones(len(repeated))), abs=1e-9)
    assert value(images, weights) != pytest.approx(value(images, np.ones(len(images))), abs=1e-6)


def test_a_curve_by_hand() -> None:
    # Right, wrong, right of four objects: precision 1, 1/2, 2/3 at recalls 1/4, 1/4, 1/2.
    matches = Matches(np.zeros(3, int), np.array([[RIGHT, WRONG, RIGHT]]), np.array([4]))
    wanted = {
        area: 1 / 4 + 1 / 4 * 2 / 3,
        eleven_points: (3 * 1 + 3 * 2 / 3) / 11,
        hundred_and_one_points: (26 * 1 + 25 * 2 / 3) / 101,
    }
    for rule, value in wanted.items():
        assert mean_average_precision("AP", 1, [matches], rule).value == pytest.approx(value)


def test_classes_without_objects_are_left_out() -> None:
    right = Matches(np.zeros(1, int), np.array([[RIGHT]]), np.array([1]))
    only_wrong = Matches(np.zeros(1, int), np.array([[WRONG]]), np.array([0]))
    unseen = Matches(np.empty(0, int), np.empty((1, 0), int), np.array([2]))
    assert mean_average_precision("AP", 1, [right, only_wrong], area).value == 1.0
    assert mean_average_precision("AP", 1, [right, unseen], area).value == 0.5
    assert np.isnan(mean_average_precision("AP", 1, [only_wrong], area).value)


@pytest.mark.timing
def test_wrong_detections_take_little_time() -> None:
    """Most detections are wrong at all overlaps; an interval takes the score a thousand times."""
    random, number = np.random.default_rng(0), 200_000
    outcomes = np.zeros((10, number), np.int8)
    outcomes[:, random.permutation(number)[:500]] = RIGHT
    images, objects = random.integers(0, 1_000, number), np.ones(1_000)

    def seconds(thresholds: int) -> float:
        matches = Matches(images, outcomes[:thresholds], objects)
        measure = mean_average_precision("AP", 1_000, [matches], hundred_and_one_points)
        turns = []
        for _ in range(5):
            start = perf_counter()
            assert 0 < measure.value < 1
            turns.append(perf_counter() - start)
        return min(turns)

    assert seconds(10) < 3 * seconds(1)


def test_perfect_detections_have_a_map_of_one() -> None:
    perfect = [
        (truth, detections_of(truth.corners, np.linspace(1, 0.5, len(truth)), truth.labels))
        for truth, _ in scenes(3, ignored=0.0)
    ]
    for rule in VOC.values():
        assert voc(perfect, rule).value == pytest.approx(1.0)
