"""Networks judged by their task, on images whose answers are known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from quantkit.data.arrays import arrays
from quantkit.data.preprocess import Preprocess
from quantkit.data.voc import voc_boxes, voc_masks
from quantkit.errors import DataError, UserError
from quantkit.evaluation.joint_run import Role
from quantkit.evaluation.measure import Score, ScoreDrop
from quantkit.evaluation.network import Network
from quantkit.tasks.choose import make_task
from quantkit.tasks.detections import Detections
from quantkit.tasks.evaluate import TaskEvaluation, evaluate_task
from quantkit.tasks.reference import TaskReference
from tests.data.annotations import voc_folder
from tests.tasks.networks import COLUMNS, RAW, ROWS, colour_segmenter, network, pixel_detector, pixels

CLASSES = ("cat", "dog")
CAT, DOG = ("cat", (0.0, 0.0, 3.0, 6.0), 0), ("dog", (2.0, 5.0, 6.0, 11.0), 0)
SEES_CAT, SEES_DOG = ((0.0, 0.0, 3.0, 6.0), 0.9, 0), ((2.0, 5.0, 6.0, 11.0), 0.8, 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    size = (ROWS, COLUMNS)
    root = voc_folder(tmp_path / "voc", {"a": (size, [CAT]), "b": (size, [CAT, DOG]), "c": (size, [])})
    seen = {"a": pixels(SEES_CAT), "b": pixels(SEES_DOG), "c": pixels()}
    for name, image in seen.items():
        Image.fromarray(image).save(root / "JPEGImages" / f"{name}.png")
    return root


def detector(shift: float = 0.0) -> Network:
    return network(pixel_detector(shift), (3, ROWS, COLUMNS), RAW, CLASSES)


def judged(networks: Mapping[Role, Network], data: Any, **options: Any) -> TaskEvaluation:
    first = networks["network"]
    task = make_task("detection", first.output_shapes, first.input_shape, first.name, CLASSES)
    return evaluate_task(task, networks, data, batch_size=2, **options)


def values(scores: tuple[Score, ...]) -> dict[str, float | None]:
    return {each.name: each.value for each in scores}


def test_detections_are_judged_by_the_objects_of_their_images(engine: None, folder: Path) -> None:
    evaluation = judged({"network": detector()}, voc_boxes(folder, classes=CLASSES))
    assert (evaluation.task, evaluation.images, evaluation.agreement, evaluation.drops) == ("detection", 3, {}, {})
    # Of two cats one is seen, of one dog all.
    assert values(evaluation.scores["network"]) == {
        "VOC12 mAP": pytest.approx(0.75), "VOC07 mAP": pytest.approx((6 / 11 + 1) / 2),
    }  # fmt: skip
    assert evaluation.loss is None
    only_first = judged({"network": detector()}, voc_boxes(folder, classes=CLASSES), num_samples=1)
    assert only_first.images == 1 and values(only_first.scores["network"])["VOC12 mAP"] == 1.0


def test_a_network_is_compared_with_its_reference_in_points(engine: None, folder: Path) -> None:
    networks: dict[Role, Network] = {"network": detector(2.5), "reference": detector()}
    evaluation = judged(networks, voc_boxes(folder, classes=CLASSES))
    assert values(evaluation.scores["network"])["VOC12 mAP"] == 0.0
    assert values(evaluation.agreement["network"]) == {"mAP of agreement": 0.0}
    assert evaluation.drops["reference"].points == pytest.approx(75.0) and evaluation.loss == pytest.approx(75.0)
    same = judged({"network": detector(), "reference": detector()}, voc_boxes(folder, classes=CLASSES))
    assert values(same.agreement["network"]) == {"mAP of agreement": 1.0} and same.loss == 0.0
    assert same.drops["reference"].verdict == "not distinguishable"


@pytest.mark.long
def test_parts_of_one_photograph_are_drawn_together(engine: None, folder: Path) -> None:
    networks: dict[Role, Network] = {"network": detector(), "reference": detector()}
    images = voc_boxes(folder, classes=CLASSES)
    apart = judged(networks, images).scores["network"][0]
    assert apart.low is not None and apart.high is not None and apart.low < 0.75 < apart.high
    of_one = replace(images, photographs=(7, 7, 7))
    evaluation = judged(networks, of_one)
    for each in (evaluation.scores["network"][0], evaluation.scores["reference"][0]):
        assert (each.value, each.low, each.high) == (pytest.approx(0.75),) * 3
    first_two = judged(networks, replace(images, photographs=(7, 4, 4)), num_samples=2).scores["network"][0]
    assert first_two.low is not None and first_two.high is not None and first_two.low < first_two.high
    task = make_task("detection", detector().output_shapes, (3, ROWS, COLUMNS), "net", CLASSES)
    nothing = Detections(np.zeros((0, 4)), np.zeros(0), np.zeros(0, np.int64))
    for photographs, alike in (((7, 7, 7), True), (None, False)):
        annotated = replace(images, photographs=photographs)
        cat = Detections(np.array([[0.0, 0, 3, 6]]), np.ones(1), np.zeros(1, np.int64))
        lost = TaskReference(task, [cat, cat, nothing], annotated, RAW, (ROWS, COLUMNS)).drop([cat, nothing, nothing])
        assert lost is not None and lost.loss == pytest.approx(25.0) and (lost.low == lost.high == lost.loss) == alike


def test_without_annotations_agreement_remains(engine: None, folder: Path) -> None:
    images = voc_boxes(folder, classes=CLASSES).samples
    evaluation = judged({"network": detector(2.5), "reference": detector()}, images)
    assert (evaluation.scores, evaluation.drops, evaluation.loss) == ({}, {}, 100.0)
    with pytest.raises(DataError, match="no annotations that detection could be judged by; give a VOC folder"):
        judged({"network": detector()}, images)


def test_nothing_confident_is_nothing_to_agree_on(engine: None) -> None:
    images = arrays(np.zeros((2, ROWS, COLUMNS, 3), np.uint8))
    evaluation = judged({"network": detector(), "reference": detector()}, images)
    assert evaluation.agreement["network"] == (Score("mAP of agreement", None, None, None),)
    assert evaluation.loss is None


def test_networks_must_be_comparable(engine: None, folder: Path) -> None:
    other = network(colour_segmenter(ROWS), (3, ROWS, COLUMNS), RAW)
    with pytest.raises(UserError, match="outputs of size"):
        judged({"network": detector(), "reference": other}, voc_boxes(folder, classes=CLASSES))


def test_the_document_is_json() -> None:
    evaluation = TaskEvaluation(
        "detection",
        3,
        {"network": (Score("mAP", 0.5, 0.25, 0.75),)},
        {"network": (Score("agreement", None, None, None),)},
        {"reference": ScoreDrop("mAP", 1.5, 0.5, 2.5)},
    )
    assert json.loads(json.dumps(evaluation.document, allow_nan=False)) == {
        "task": "detection",
        "images": 3,
        "scores": {"network": [{"name": "mAP", "value": 0.5, "low": 0.25, "high": 0.75}]},
        "agreement": {"network": [{"name": "agreement", "value": None, "low": None, "high": None}]},
        "drops": {"reference": {"name": "mAP", "points": 1.5, "low": 0.5, "high": 2.5, "verdict": "behind"}},
        "notes": [],
    }


@pytest.fixture
def masked(tmp_path: Path) -> Path:
    """8 x 12 pixels: red on the left third, black in the middle, green on the right; one row is not told."""
    root = tmp_path / "voc"
    image, mask = np.zeros((8, 12, 3), np.uint8), np.zeros((8, 12), np.uint8)
    image[:, :4, 0] = image[:, 8:, 1] = 255
    mask[:, :4], mask[:, 8:], mask[0] = 1, 2, 255
    for folder, pixel in (("JPEGImages", image), ("SegmentationClass", mask)):
        (root / folder).mkdir(parents=True)
        Image.fromarray(pixel).save(root / folder / "a.png")
    return root


def test_each_image_has_its_own_size(engine: None, masked: Path) -> None:
    for folder in ("JPEGImages", "SegmentationClass"):
        image = Image.open(masked / folder / "a.png")
        image.resize((30, 8), Image.Resampling.NEAREST).save(masked / folder / "b.png")
        image.resize((12, 20), Image.Resampling.NEAREST).save(masked / folder / "c.png")
    net = network(colour_segmenter(24), (3, 24, 24), Preprocess(fit="stretch"))
    task = make_task("segmentation", net.output_shapes, net.input_shape, net.name)
    data = voc_masks(masked, classes=("background", "red", "green"))
    for batch_size in (1, 2):
        evaluation = evaluate_task(task, {"network": net}, data, batch_size)
        assert values(evaluation.scores["network"]) == {"mIoU": 1.0, "pixel accuracy": 1.0}


@pytest.mark.parametrize(("threshold", "union", "accuracy"), [(0.5, 1.0, 1.0), (2.0, 1 / 9, 1 / 3)])
def test_maps_are_judged_on_the_images_own_pixels(
    engine: None, masked: Path, threshold: float, union: float, accuracy: float
) -> None:
    net = network(colour_segmenter(24, threshold), (3, 24, 24), Preprocess(fit="stretch"))
    task = make_task("segmentation", net.output_shapes, net.input_shape, net.name)
    data = voc_masks(masked, classes=("background", "red", "green"))
    evaluation = evaluate_task(task, {"network": net, "reference": net}, data)
    assert values(evaluation.scores["network"]) == {
        "mIoU": pytest.approx(union), "pixel accuracy": pytest.approx(accuracy),
    }  # fmt: skip
    assert values(evaluation.agreement["network"]) == {"mIoU of agreement": 1.0, "pixel accuracy of agreement": 1.0}
