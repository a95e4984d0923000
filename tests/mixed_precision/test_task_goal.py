"""Searches for networks that keep the score of their task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import quantkit
from quantkit.backends.mxnet.execute import run
from quantkit.bundle import read_bundle
from quantkit.bundle.network import network_of
from quantkit.data.annotated import AnnotatedImages
from quantkit.data.preprocess import Preprocess
from quantkit.errors import DataError, UserError
from quantkit.host.load import Load
from quantkit.ir.graph import Graph
from quantkit.mixed_precision import busy, search, task_images
from quantkit.mixed_precision.search import SearchResult, search_mixed_precision
from quantkit.mixed_precision.task_images import judged_by_task
from quantkit.models.model import Model, Source
from quantkit.progress import silent
from quantkit.tasks.confusion import confusion_matrix, mean_intersection_over_union
from quantkit.tasks.judge import task_and_data
from tests.data.annotations import coco_document, coco_file, voc_folder
from tests.networks import DATA, Builder
from tests.requirements import requires
from tests.tasks.networks import COLUMNS, RAW, ROWS, pixel_detector, pixels

SIDE, COUNT = 24, 12
NAMES = ("nothing", "red", "green")
PHOTOGRAPHS = np.random.default_rng(5).integers(0, 256, (COUNT, SIDE, SIDE, 3), np.uint8)
SOURCE = Source("net", "given", "made by hand", "5" * 64)


def colours() -> Graph:
    """Two layers, the second of which tells the class by the larger of red, green and a threshold."""
    b = Builder()
    kernel = {"kernel": (1, 1), "num_filter": 3}
    zero = b.param("zero", np.zeros(3))
    same = b.op("Convolution", "same", DATA, b.param("identity", np.eye(3).reshape(3, 3, 1, 1)), zero, **kernel)
    weight = b.param("weight", np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]]).reshape(3, 3, 1, 1))
    bias = b.param("bias", np.array([0.5, 0, 0]))
    return b.graph(b.op("Convolution", "scores", b.relu("relu", same), weight, bias, **kernel))


def classes(graph: Graph) -> np.ndarray:
    (scores,) = run(graph, {"data": PHOTOGRAPHS.transpose(0, 3, 1, 2).astype(np.float32) / 255})
    predicted: np.ndarray = scores.argmax(axis=1)
    return predicted


def miou(truth: np.ndarray, predicted: np.ndarray) -> float:
    matrix = confusion_matrix(truth, predicted, 3)
    return mean_intersection_over_union(np.diagonal(matrix), matrix.sum(axis=1), matrix.sum(axis=0))


MODEL = Model("net", colours(), (3, SIDE, SIDE), Preprocess(fit="stretch"), SOURCE, NAMES, task="segmentation")


@pytest.fixture
def voc(engine: None, tmp_path: Path) -> Path:
    """The photographs with the classes that FP32 sees, but for a corner where it is wrong."""
    root = tmp_path / "voc"
    masks = classes(MODEL.graph)
    masks[:, :6, :6] = 0
    for folder, arrays in (("JPEGImages", PHOTOGRAPHS), ("SegmentationClass", masks.astype(np.uint8))):
        (root / folder).mkdir(parents=True)
        for index, array in enumerate(arrays):
            Image.fromarray(array).save(root / folder / f"{index:02}.png")
    return root


@pytest.fixture
def begin(int8_engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., SearchResult]:
    """Search with ranges so tight that bright pixels cannot be told apart."""
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(busy, "read_load", lambda cpus: Load(0.0, 0.0, 0.25))
    fused = quantkit.fuse(MODEL, PHOTOGRAPHS)
    table = quantkit.calibrate(fused, PHOTOGRAPHS, COUNT, "percentile:60")
    plan = quantkit.plan(fused, table)

    def begun(goal: quantkit.Goal, judge: object) -> SearchResult:
        return search_mixed_precision(fused, table, plan, goal, judge, PHOTOGRAPHS, "none")  # type: ignore[arg-type]

    return begun


def test_the_drop_is_in_points_of_the_task(begin: Callable[..., SearchResult], voc: Path, tmp_path: Path) -> None:
    truth = classes(MODEL.graph)
    truth[:, :6, :6] = 0
    result = begin(quantkit.Goal(max_drop=0.5), str(voc))
    drop, int8 = result.chosen.drop, result.int8.drop
    assert drop is not None and int8 is not None and (drop.measure, drop.images) == ("mIoU", COUNT)
    assert drop.reference == pytest.approx(miou(truth, classes(MODEL.graph)))
    assert drop.other == pytest.approx(miou(truth, classes(result.network.graph)))
    assert result.met and result.layers and drop.loss <= 0.5 < int8.loss
    assert drop.loss == pytest.approx(100 * (drop.reference - drop.other)) and int8.low <= int8.loss <= int8.high
    assert result.chosen.divergence < result.int8.divergence
    settings = read_bundle(result.network.save(tmp_path / "bundle")).manifest.settings
    assert settings is not None and settings.mixed is not None
    assert (settings.mixed.measure, settings.mixed.drop) == ("mIoU", drop.loss)
    again = begin(quantkit.Goal(max_drop=0.5), str(voc))
    assert again.measurements[1] == result.measurements[0] and again.chosen.drop == drop


def test_without_annotations_the_drop_is_of_agreement(begin: Callable[..., SearchResult]) -> None:
    result = begin(quantkit.Goal(max_drop=0.5), PHOTOGRAPHS)
    drop = result.chosen.drop
    assert drop is not None and (drop.measure, drop.reference) == ("mIoU of agreement", 1.0)
    assert drop.other == pytest.approx(miou(classes(MODEL.graph), classes(result.network.graph)))
    assert result.met and drop.loss == pytest.approx(100 * (1 - drop.other))
    int8 = result.int8.drop
    assert int8 is not None and int8.low < int8.loss < int8.high


DETECTOR = Model("net", pixel_detector(), (3, ROWS, COLUMNS), RAW, SOURCE, ("cat", "dog"), task="detection")
CAT, DOG = ((0.0, 0.0, 3.0, 6.0), 0.9, 0), ((2.0, 5.0, 6.0, 11.0), 0.8, 1)


def test_detections_are_held_against_fp32s(engine: None) -> None:
    judged = judged_by_task(DETECTOR, "detection", np.stack([pixels(CAT), pixels(DOG, CAT)]), silent)
    assert (judged.count, judged.measure, judged.divergence(DETECTOR.graph)) == (2, "mAP of agreement", 0.0)
    same, moved, near = (judged.drop(judged.outcomes_of(pixel_detector(shift))) for shift in (0.0, 2.5, 0.5))
    assert same is not None and (same.loss, same.low, same.high) == (0.0, 0.0, 0.0)
    assert moved is not None and moved.loss == 100.0
    # Boxes that overlap by half are the same objects, and yet farther from FP32's.
    assert near is not None and near.loss == 0.0
    assert 0.0 < judged.divergence(pixel_detector(0.5)) < judged.divergence(pixel_detector(2.5)) <= 1.0


def test_the_corners_of_boxes_are_part_of_what_is_measured(engine: None, tmp_path: Path) -> None:
    root = voc_folder(tmp_path / "voc", {"a": ((ROWS, COLUMNS), [("cat", (1.0, 1.0, 3.0, 4.0), 0)])})
    Image.fromarray(pixels(((1.0, 1.0, 2.0, 3.0), 0.9, 0))).save(root / "JPEGImages" / "a.png")
    edges, ended = (
        judged_by_task(replace(DETECTOR, box_corners=corners), "detection", str(root), silent)  # type: ignore[arg-type]
        for corners in ("edges", "pixels")
    )
    assert edges.drop_of_fp32 is not None and ended.drop_of_fp32 is not None
    assert (edges.drop_of_fp32.other, ended.drop_of_fp32.other) == (0.0, 1.0)
    assert edges.facts != ended.facts == {**ended.facts, "images": edges.sha256}


def test_photographs_are_part_of_what_is_measured(
    engine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Intervals are over photographs: other ones, other losses."""
    root = voc_folder(tmp_path / "voc", {name: ((ROWS, COLUMNS), [("cat", CAT[0], 0)]) for name in ("a", "b")})
    task, images = task_and_data("detection", network_of(DETECTOR), str(root))
    assert isinstance(images, AnnotatedImages)
    hashes = []
    for photographs in (None, (0, 0), (0, 1), (0, 0)):
        opened = replace(images, photographs=photographs)
        monkeypatch.setattr(task_images, "task_and_data", lambda *_, opened=opened: (task, opened))
        hashes.append(judged_by_task(DETECTOR, "detection", str(root), silent).facts["images"])
    assert len(set(hashes)) == 3 and hashes[1] == hashes[3]


def test_annotations_are_part_of_what_is_measured(engine: None, tmp_path: Path) -> None:
    requires("pycocotools")
    images = {"a.png": ((ROWS, COLUMNS), [("cat", CAT[0], 0)])}
    path = coco_file(tmp_path, coco_document(images, {"cat": 1, "dog": 2}))
    Image.fromarray(pixels(CAT)).save(tmp_path / "val" / "a.png")
    first = judged_by_task(DETECTOR, "detection", str(path), silent)
    assert first.measure == "COCO AP" and first.facts["task"] == "detection"
    assert first.drop_of_fp32 is not None and first.drop_of_fp32.other == pytest.approx(1.0)
    hashes, text = {first.sha256}, path.read_text()
    for old, new in (
        ('"bbox": [0.0', '"bbox": [0.25'),
        ('"iscrowd": 0', '"iscrowd": 1'),
        ('tegory_id": 1', 'tegory_id": 2'),
    ):
        path.write_text(text.replace(old, new))
        hashes.add(judged_by_task(DETECTOR, "detection", str(path), silent).sha256)
    assert len(hashes) == 4


def test_people_are_part_of_what_is_measured(engine: None, tmp_path: Path) -> None:
    b = Builder()
    pose = Model("net", b.graph(b.relu("maps", DATA)), (3, 16, 12), Preprocess(fit="stretch"), SOURCE, task="pose")
    person = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [2, 2, 8, 10], "area": 64, "keypoints": [4, 5, 2] * 3}
    image = {"id": 1, "file_name": "a.png", "height": 16, "width": 12}
    given = {"images": [image], "categories": [{"id": 1, "name": "person"}], "annotations": [person]}
    path = coco_file(tmp_path, given)
    hashes, text = set(), path.read_text()
    for old, new in (("", ""), ('"area": 64', '"area": 65'), ("[4, 5, 2,", "[4, 6, 2,"), ("[4, 5, 2,", "[4, 5, 0,")):
        path.write_text(text.replace(old, new, 1))
        hashes.add(judged_by_task(pose, "pose", str(path), silent).sha256)
    assert len(hashes) == 4


def test_each_image_has_its_own_size(engine: None, tmp_path: Path) -> None:
    for name, (height, width) in (("a", (8, 12)), ("b", (20, 6))):
        image, mask = np.zeros((height, width, 3), np.uint8), np.zeros((height, width), np.uint8)
        image[: height // 2, :, 0], mask[: height // 2] = 255, 1
        for folder, array in (("JPEGImages", image), ("SegmentationClass", mask)):
            (tmp_path / folder).mkdir(exist_ok=True)
            Image.fromarray(array).save(tmp_path / folder / f"{name}.png")
    judged = judged_by_task(MODEL, "segmentation", str(tmp_path), silent)
    assert judged.drop_of_fp32 is not None and (judged.count, judged.drop_of_fp32.reference) == (2, 1.0)


def test_goals_that_cannot_be_measured(engine: None, tmp_path: Path) -> None:
    goal = quantkit.Goal(max_drop=1)
    with pytest.raises(UserError, match="detection needs outputs that are"):
        search.check_request(replace(MODEL, task="detection"), goal, str(tmp_path), 1)
    with pytest.raises(DataError, match="there is no sample data 'nowhere'"):
        search.check_request(MODEL, goal, "nowhere", 1)
    nothing = judged_by_task(DETECTOR, "detection", np.zeros((2, ROWS, COLUMNS, 3), np.uint8), silent)
    assert nothing.measure is None and nothing.drop(nothing.outcomes_of(DETECTOR.graph)) is None
    with pytest.raises(DataError, match="neither objects nor confident predictions of FP32; give annotated images"):
        search._check_measurable(DETECTOR, nothing)
