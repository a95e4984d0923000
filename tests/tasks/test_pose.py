"""Joints: where heatmaps have their peaks, and scores against pycocotools' own."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.compat import load_gluoncv, load_mxnet
from quantkit.data.people import Person
from quantkit.data.placement import placement
from quantkit.data.preprocess import Preprocess
from quantkit.errors import EngineError, UserError
from quantkit.tasks.choose import make_task
from quantkit.tasks.keypoints import Keypoints, peaks, similarity
from quantkit.tasks.pose import CONFIDENT, Pose
from tests.requirements import requires

JOINTS, PEOPLE = 17, 40


def people(seed: int = 0) -> list[tuple[Person, Keypoints]]:
    """People of all sizes, and what a network might see of them; some have few marked joints."""
    random = np.random.default_rng(seed)
    pairs = []
    for _ in range(PEOPLE):
        area = float(random.uniform(500, 20_000))
        points = random.uniform(0, 200, (JOINTS, 2))
        visible = random.random(JOINTS) < 0.7
        visible[0] = True
        noise = random.normal(0, random.uniform(0.01, 0.15) * np.sqrt(area), (JOINTS, 2))
        pairs.append((Person(points, visible, area), Keypoints(points + noise, random.random(JOINTS))))
    return pairs


def cocos(pairs: list[tuple[Person, Keypoints]]) -> Any:
    """pycocotools' program over the people, each in an image of their own."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    sides = [COCO(), COCO()]
    entries = [[], []]  # type: list[list[dict[str, Any]]]
    for number, (person, seen) in enumerate(pairs, 1):
        marked = np.concatenate([person.points, 2 * person.visible[:, None]], axis=1).ravel().tolist()
        found = np.concatenate([seen.points, np.ones((JOINTS, 1))], axis=1).ravel().tolist()
        common = {"id": number, "image_id": number, "category_id": 1, "bbox": [0, 0, 200, 200], "iscrowd": 0}
        entries[0].append(
            common | {"keypoints": marked, "num_keypoints": int(person.visible.sum()), "area": person.area}
        )
        entries[1].append(common | {"keypoints": found, "score": seen.score, "area": person.area})
    with redirect_stdout(io.StringIO()):
        for side, annotations in zip(sides, entries):
            side.dataset = {
                "images": [{"id": number} for number in range(1, len(pairs) + 1)],
                "categories": [{"id": 1}],
                "annotations": annotations,
            }
            side.createIndex()
        judge = COCOeval(*sides, "keypoints")
        judge.params.areaRng, judge.params.areaRngLbl = [[0, 1e10]], ["all"]
        judge.evaluate()
        judge.accumulate()
    return judge


def test_similarity_and_precision_are_cocos() -> None:
    requires("pycocotools")
    pairs = people()
    judge = cocos(pairs)
    for number, pair in enumerate(pairs, 1):
        assert similarity(*pair) == pytest.approx(float(judge.ious[number, 1][0, 0]), abs=1e-9)
    task = Pose(JOINTS, (256, 192))
    precision, mean = task.measures([task.compare(*pair) for pair in pairs])
    assert precision.value == pytest.approx(float(judge.eval["precision"].mean()), abs=1e-9)
    assert 0.1 < precision.value < 0.9
    assert mean.value == pytest.approx(np.mean([similarity(*pair) for pair in pairs]))


def test_other_joints_than_cocos_have_one_spread() -> None:
    person = Person(np.zeros((3, 2)), np.ones(3, bool), 200.0)
    # A spread of 0.05: a reach of 2 * 200 * (2 * 0.05) ** 2 = 4 for the square of the distance.
    assert similarity(person, Keypoints(np.array([[2.0, 0], [0, 2], [0, 0]]), np.ones(3))) == pytest.approx(
        (2 * np.exp(-1) + 1) / 3
    )


def test_people_without_visible_joints_do_not_count() -> None:
    task, pairs = Pose(JOINTS, (256, 192)), people()
    hidden = Person(np.zeros((JOINTS, 2)), np.zeros(JOINTS, bool), 100.0)
    compared = [task.compare(*pair) for pair in pairs]
    more = [*compared, task.compare(hidden, Keypoints(np.zeros((JOINTS, 2)), np.ones(JOINTS)))]
    assert np.isnan(more[-1][0])
    assert [each.value for each in task.measures(more)] == [each.value for each in task.measures(compared)]
    assert np.isnan(task.measures(more[-1:])[0].value) and np.isnan(task.agreement(more[-1:])[0].value)


def test_peaks_are_gluoncvs(engine: None) -> None:
    load_gluoncv()
    from gluoncv.data.transforms.pose import get_final_preds

    maps = np.random.default_rng(2).random((6, 5, 12, 9)).astype(np.float32)
    # Peaks at borders stay where they are.
    maps[0, 0, 0, 4] = maps[0, 1, 11, 8] = maps[0, 2, 5, 1] = maps[0, 3, 5, 8] = 2
    # The square around the map's middle is mapped onto itself.
    middle, sides = np.tile([4.5, 6.0], (6, 1)), np.tile([9.0, 12.0], (6, 1))
    points, scores = get_final_preds(load_mxnet().nd.array(maps), middle, sides)
    for seen, wanted, score in zip((peaks(each) for each in maps), points.asnumpy(), scores.asnumpy()):
        np.testing.assert_allclose(seen.points, wanted, atol=1e-3)
        np.testing.assert_allclose(seen.scores, score.ravel())


def test_joints_come_back_onto_the_image() -> None:
    task = make_task("pose", [(2, 16, 12)], (3, 64, 48), "net")
    maps = np.zeros((1, 2, 16, 12), np.float32)
    maps[0, 0, 4, 6], maps[0, 1, 0, 11] = 1.0, 0.1
    (seen,) = task.decode([maps])
    assert isinstance(seen, Keypoints)
    assert seen.points.tolist() == [[24, 16], [44, 0]] and seen.score == pytest.approx(0.55)
    placed = placement(Preprocess(fit="stretch"), (128, 192), (64, 48))
    assert task.in_image(seen, placed).points.tolist() == [[96, 32], [176, 0]]  # type: ignore[arg-type,union-attr]


def test_only_what_the_reference_sees_should_be_seen() -> None:
    task = Pose(2, (64, 48))
    scores = Keypoints(np.zeros((2, 2)), np.array([0.2, 0.19]))
    assert task.as_truth(scores, (64, 48)).visible.tolist() == [True, False]
    reference = Keypoints(np.array([[10.0, 10.0], [30.0, 30.0]]), np.array([0.9, CONFIDENT / 2]))
    elsewhere = Keypoints(np.array([[10.0, 10.0], [5.0, 60.0]]), np.array([0.9, 0.9]))
    assert task.compare(task.as_truth(reference, (64, 48)), elsewhere)[0] == 1.0
    assert task.difference(reference, elsewhere) == 0.0
    near, far = (Keypoints(reference.points + shift, reference.scores) for shift in (1.0, 8.0))
    assert 0.0 < task.difference(reference, near) < task.difference(reference, far) < 1.0
    blind = Keypoints(reference.points, np.zeros(2))
    assert task.difference(blind, far) == 0.0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_heatmaps_without_numbers_are_refused(value: float) -> None:
    maps = np.zeros((2, 2, 16, 12), np.float32)
    maps[1, 1, 3, 4] = value
    with pytest.raises(EngineError, match="a network computes heatmaps with NaN or infinite values; check the images"):
        Pose(2, (64, 48)).decode([maps])


def test_joints_are_drawn() -> None:
    image = np.zeros((64, 48, 3), np.uint8)
    seen = Keypoints(np.array([[10.0, 20.0], [30.0, 40.0]]), np.array([0.9, 0.0]))
    drawn = Pose(2, (64, 48)).draw(image, seen)
    assert drawn[20, 10].any() and not drawn[40, 30].any() and not image.any()


def test_outputs_that_are_no_heatmaps() -> None:
    with pytest.raises(UserError, match="pose needs outputs that are heatmaps of shape"):
        make_task("pose", [(17,)], (3, 64, 48), "net")
