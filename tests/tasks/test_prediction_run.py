"""Predictions that are computed in parts, stored and sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantkit.data.arrays import arrays
from quantkit.data.batch_stream import BatchStream
from quantkit.progress import silent
from quantkit.tasks.detection import Detection
from quantkit.tasks.detections import Detections
from quantkit.tasks.keypoints import Keypoints
from quantkit.tasks.pose import Pose
from quantkit.tasks.prediction_run import PredictionRun
from quantkit.tasks.segmentation import Segmentation
from quantkit.tasks.task import Task
from tests.sharding import InParts
from tests.tasks.networks import COLUMNS, RAW, ROWS, pixel_detector, pixels

DETECTOR = Detection("suppressed", (ROWS, COLUMNS), (), 3)
SEEN = (((0.0, 0.0, 3.0, 6.0), 0.9, 0), ((2.0, 5.0, 6.0, 11.0), 0.8, 1))


def parts(predictions: list[Any]) -> list[Any]:
    """Predictions as what they consist of, which can be compared."""
    kinds = (Detections, Keypoints)
    return [
        [array.tolist() for array in vars(each).values()] if isinstance(each, kinds) else each.tolist()
        for each in predictions
    ]


def random_predictions(task: Task[Any, Any, Any], number: int, seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    if isinstance(task, Segmentation):
        return [random.integers(0, task.classes, (5, 3 + image)) for image in range(number)]
    if isinstance(task, Pose):
        return [Keypoints(random.normal(size=(4, 2)), random.normal(size=4)) for _ in range(number)]
    counts = random.integers(0, 4, number)
    return [
        Detections(random.normal(size=(count, 4)), random.random(count), random.integers(0, 3, count))
        for count in counts
    ]


@pytest.mark.parametrize("task", [DETECTOR, Segmentation(3), Segmentation(256), Segmentation(300), Pose(4, (9, 7))])
def test_packed_predictions_are_those_of_before(task: Task[Any, Any, Any]) -> None:
    some, more = random_predictions(task, 6, 0), random_predictions(task, 3, 1)
    packed = [task.packed(each) for each in (some, more)]
    joined = {name: np.concatenate([each[name] for each in packed]) for name in packed[0]}
    assert all(array.dtype.kind in "iuf" for array in joined.values())
    back = list(task.unpacked(joined))
    assert parts(back) == parts(some + more)
    if isinstance(task, Segmentation):
        assert {each.dtype for each in back} == {np.dtype(np.int64)}


def test_images_in_parts_are_predicted_as_all_at_once(engine: None) -> None:
    images = np.stack([pixels(*SEEN[: number % 3]) for number in range(7)]).transpose(0, 3, 1, 2).astype(np.float32)
    run = PredictionRun(DETECTOR, {"network": pixel_detector(), "reference": pixel_detector(0.5)}, 2)
    stream = BatchStream(arrays(images), RAW, (3, ROWS, COLUMNS), 2)
    whole = run.combine([run.partial(stream)])
    cut = InParts(4)(run, stream, silent, "")
    assert len(whole.parts) == 1 and len(cut.parts) == 2 and whole.sha256 == cut.sha256
    for role in whole.roles:
        one, two = ([each[role] for each in predictions] for predictions in (whole, cut))
        assert parts(one) == parts(two) and [len(each) for each in one] == [0, 1, 2, 0, 1, 2, 0]
    shifts = [each["reference"].boxes - each["network"].boxes for each in whole if len(each["network"])]
    assert np.allclose(np.concatenate(shifts), 0.5)
    assert run.key() != PredictionRun(DETECTOR, {"network": pixel_detector()}, 2).key()
