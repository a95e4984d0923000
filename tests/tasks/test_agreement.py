"""Predictions of two forms of a network held against each other, and the task that a network says it is for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.errors import UserError
from quantkit.ir.graph import Graph
from quantkit.models.load import load_model
from quantkit.models.model import Model, Source
from quantkit.tasks.agreement import TaskAgreement, agreement_of
from quantkit.tasks.detection import Detection
from quantkit.tasks.pose import Pose
from quantkit.tasks.segmentation import Segmentation
from tests.requirements import requires
from tests.tasks.networks import COLUMNS, RAW, ROWS, colour_segmenter, pixel_detector, pixels

CAT, DOG = ((0.0, 0.0, 3.0, 6.0), 0.9, 0), ((2.0, 5.0, 6.0, 11.0), 0.75, 1)
DETECTOR = Model("net", pixel_detector(), (3, ROWS, COLUMNS), RAW, Source("net", "given"), task="detection")


def agreed(first: Graph, second: Graph, batches: list[np.ndarray]) -> TaskAgreement:
    compared = agreement_of(replace(DETECTOR, graph=first))
    assert compared is not None
    for batch in batches:
        data = {"data": batch.transpose(0, 3, 1, 2).astype(np.float32)}
        compared.add(run(first, data), run(second, data))
    return compared


def test_detections_agree_where_boxes_lie_on_each_other(engine: None) -> None:
    batches = [np.stack([pixels(CAT), pixels(DOG, CAT)]), pixels()[None]]
    (score,) = agreed(pixel_detector(), pixel_detector(), batches).scores
    assert (score.name, score.value, score.low, score.high) == ("mAP of agreement", 1.0, 1.0, 1.0)
    assert agreed(pixel_detector(), pixel_detector(2.5), batches).scores[0].value == 0.0


def test_confident_boxes_are_found_again(engine: None) -> None:
    weak = ((0.0, 6.0, 3.0, 12.0), 0.49, 0)
    boxes = agreed(pixel_detector(), pixel_detector(0.5), [np.stack([pixels(CAT, weak), pixels(DOG)])]).boxes
    assert boxes is not None and (boxes.detections, boxes.found) == (2, 2)
    # Of 18 and of 24 pixels.
    shared = [13.75 / (2 * 18 - 13.75), 19.25 / (2 * 24 - 19.25)]
    assert (boxes.overlap, boxes.edges, boxes.scores) == (pytest.approx(np.mean(shared)), pytest.approx(0.5), 0.0)
    assert agreed(pixel_detector(), pixel_detector(), [pixels(weak)[None]]).boxes is None


def test_maps_agree_pixel_by_pixel(engine: None) -> None:
    model = replace(DETECTOR, graph=colour_segmenter(6), input_shape=(3, 6, 6), task="segmentation")
    compared = agreement_of(model)
    assert compared is not None
    image = np.zeros((1, 3, 6, 6), np.float32)
    image[:, 0, :3] = 1
    compared.add(run(model.graph, {"data": image}), run(colour_segmenter(6, 2.0), {"data": image}))
    # Of red and nothing, half of the pixels each, all are nothing.
    assert compared.boxes is None
    named = [(each.name, each.value) for each in compared.scores]
    assert named == [("mIoU of agreement", 0.25), ("pixel accuracy of agreement", 0.5)]


@pytest.mark.parametrize("task", [None, "classification", "action", "language"])
def test_other_networks_are_compared_by_their_outputs(engine: None, task: object) -> None:
    assert agreement_of(replace(DETECTOR, task=task)) is None  # type: ignore[arg-type]


def test_outputs_that_do_not_fit_the_task_are_told(engine: None) -> None:
    with pytest.raises(UserError, match=r"segmentation needs outputs that are scores .*`task` in its card"):
        agreement_of(replace(DETECTOR, task="segmentation"))
    with pytest.raises(UserError, match="detection needs outputs that are classes, scores and boxes"):
        agreement_of(replace(DETECTOR, graph=colour_segmenter(6), input_shape=(3, 6, 6)))


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("ssd_300_mobilenet0.25_custom", Detection),
        ("center_net_resnet18_v1b_voc", Detection),
        ("mobile_pose_mobilenetv3_small", Pose),
        ("digits_fcn", Segmentation),
    ],
)
def test_networks_of_the_zoo_put_out_what_they_are_for(engine: None, name: str, form: type) -> None:
    if name.startswith("center_net"):
        # MXNet 1.6 does not check the places that gather_nd reads, and is not given it.
        requires("onednn")
    compared = agreement_of(load_model(name, weights="random", quiet=True))
    assert compared is not None and isinstance(compared.task, form)
