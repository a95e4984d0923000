"""The corners of detectors' boxes: what GluonCV trains each family on, and how it scores what they put out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from quantkit.backends.mxnet.compat import load_gluoncv, load_mxnet
from quantkit.data.boxes import BoxCorners
from quantkit.data.coco import coco_boxes
from quantkit.data.placement import Placement, placement
from quantkit.data.preprocess import Preprocess
from quantkit.data.resizing import Size
from quantkit.data.voc import voc_boxes
from quantkit.models.families import family_of
from quantkit.tasks.detection import Detection, Rules
from quantkit.tasks.judge import judge
from quantkit.tasks.voc_map import Seen
from tests.data.annotations import coco_document, coco_file, voc_folder
from tests.requirements import requires
from tests.tasks.networks import COLUMNS, RAW, ROWS, network, pixel_detector, pixels
from tests.tasks.scenes import CLASSES, scenes

# It fills the input of R-CNN.
SIZE = (60, 80)
OBJECTS = [("dog", (2.0, 3.0, 10.0, 20.0), 0), ("cat", (0.0, 0.0, 80.0, 60.0), 0)]


def voc_labels(folder: Path) -> np.ndarray:
    """The boxes of an image of a VOC folder, as GluonCV trains on them."""
    from gluoncv.data import VOCDetection

    (folder / "ImageSets" / "Main").mkdir(parents=True)
    (folder / "ImageSets" / "Main" / "val.txt").write_text("a\n")
    return np.array(VOCDetection(root=folder.parent, splits=[(2007, "val")])._load_label(0)[:, :4])


def coco_labels(document: dict[str, Any], kind: str) -> np.ndarray:
    """The boxes of an image of a COCO file, as GluonCV's data set ``kind`` has them."""
    from gluoncv import data

    coco = indexed(document)
    settings = SimpleNamespace(_min_object_area=0, _use_crowd=True, json_id_to_contiguous={17: 0, 44: 1})
    labels = getattr(data, kind)._check_load_bbox(settings, coco, document["images"][0])
    return np.array(labels[0] if kind == "COCOInstance" else labels, float)[:, :4]


def indexed(document: dict[str, Any]) -> Any:
    """A COCO document in pycocotools."""
    from pycocotools.coco import COCO

    coco = COCO()
    coco.dataset = document
    coco.createIndex()
    return coco


def in_input(labels: np.ndarray, module: str, transform: str, arguments: Sequence[int]) -> np.ndarray:
    """Where GluonCV puts an image's boxes in the input."""
    presets = import_module(f"gluoncv.data.transforms.presets.{module}")
    image = load_mxnet().nd.zeros((*SIZE, 3), dtype="uint8")
    return np.asarray(getattr(presets, transform)(*arguments)(image, labels.copy())[1], float)


@pytest.mark.parametrize(
    ("name", "module", "transform", "arguments"),
    [
        ("ssd_300_vgg16_atrous_voc", "ssd", "SSDDefaultValTransform", (300, 300)),
        ("ssd_512_resnet50_v1_coco", "ssd", "SSDDefaultValTransform", (512, 512)),
        ("yolo3_darknet53_coco", "yolo", "YOLO3DefaultValTransform", (416, 416)),
        ("center_net_resnet18_v1b_voc", "center_net", "CenterNetDefaultValTransform", (512, 512)),
        ("faster_rcnn_resnet50_v1b_voc", "rcnn", "FasterRCNNDefaultValTransform", (600, 1000)),
        ("faster_rcnn_fpn_resnet50_v1b_coco", "rcnn", "FasterRCNNDefaultValTransform", (600, 1000)),
        ("doublehead_rcnn_resnet50_v1b_voc", "rcnn", "FasterRCNNDefaultValTransform", (600, 1000)),
        # Mask R-CNN maps boxes in the same way, but in training only, where it also turns images over.
        ("mask_rcnn_resnet50_v1b_coco", "rcnn", "FasterRCNNDefaultValTransform", (600, 1000)),
    ],
)
def test_what_a_family_learns_comes_back_as_edges(
    engine: None, tmp_path: Path, name: str, module: str, transform: str, arguments: tuple[int, ...]
) -> None:
    load_gluoncv()
    if name.endswith("_voc"):
        root = voc_folder(tmp_path / "VOC2007", {"a": (SIZE, OBJECTS)})
        labels, truth = voc_labels(root), voc_boxes(root).truth(0).corners
    else:
        requires("pycocotools")
        document = coco_document({"a.png": (SIZE, OBJECTS)}, {"dog": 44, "cat": 17})
        for each in document["annotations"]:
            each.update(id=id(each), area=100.0)
        truth = coco_boxes(coco_file(tmp_path, document)).truth(0).corners
        labels = coco_labels(document, "COCOInstance" if name.startswith("mask") else "COCODetection")
    family = family_of(name)
    assert family is not None
    learned = in_input(labels, module, transform, arguments)
    input_size = family.input_shape[1:]
    outputs = [np.array([[[1.0], [0.0]]]), np.array([[[0.9], [0.8]]]), learned[None]]
    task = Detection("suppressed", input_size, (), 2, box_corners=family.box_corners)  # type: ignore[arg-type]
    (seen,) = task.decode(outputs)
    placed = placement(family.preprocess, SIZE, input_size)  # type: ignore[arg-type]
    np.testing.assert_allclose(task.in_image(seen, placed).boxes, truth, atol=1e-4)
    wrong: BoxCorners = "edges" if family.box_corners == "pixels" else "pixels"
    other = replace(task, box_corners=wrong).in_image(seen, placed).boxes
    assert np.abs(other[0] - truth[0]).tolist() == pytest.approx([0, 0, 1, 1], abs=1e-4)


def outputs_of(seen: Seen, placed: Placement) -> list[np.ndarray]:
    """What a network of GluonCV's that sees this puts out: ids, scores, and boxes from pixel to pixel."""
    _, detections = seen
    boxes = placed.boxes_in_input(detections.boxes - [0, 0, 1, 1])
    return [detections.labels[None, :, None].astype(float), detections.scores[None, :, None], boxes[None]]


LARGE = (100, 120)


def inside(seed: int) -> list[Seen]:
    """Scenes of the size ``LARGE``, in which nothing reaches out of the image."""
    return [
        (replace(truth, corners=truth.corners + 6), replace(detections, boxes=detections.boxes + 6))
        for truth, detections in scenes(seed, 24)
    ]


def ours(images: Sequence[Seen], placed: Placement, rules: Rules, corners: BoxCorners) -> list[float]:
    task = Detection("suppressed", placed.input_size, (), CLASSES, rules, corners)
    return [
        measure.value
        for measure in task.measures(
            [(each[0], task.in_image(task.decode(outputs_of(each, placed))[0], placed)) for each in images]
        )
    ]


STRETCHED, BOXED = Preprocess(fit="stretch"), Preprocess(fit="letterbox")


@pytest.mark.parametrize("seed", range(3))
def test_map_is_that_of_gluoncvs_metric(engine: None, seed: int) -> None:
    load_gluoncv()
    from gluoncv.utils.metrics.voc_detection import VOC07MApMetric, VOCMApMetric

    images, placed = inside(seed), placement(BOXED, LARGE, (300, 360))
    wanted = []
    for metric in (VOCMApMetric(), VOC07MApMetric()):
        for each in images:
            ids, scores, boxes = outputs_of(each, placed)
            truth = each[0]
            # As for R-CNN, the one whose boxes GluonCV judges in the image's pixels.
            metric.update(
                boxes / 3.0,
                ids,
                scores,
                (truth.corners - [0, 0, 1, 1])[None],
                truth.labels[None, :, None],
                truth.ignored[None, :, None],
            )
        wanted.append(metric.get()[1])
    assert ours(images, placed, "voc", "pixels") == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fit", ["stretch", "letterbox"])
def test_ap_is_that_of_gluoncvs_metric(engine: None, tmp_path: Path, seed: int, fit: str) -> None:
    """SSD and YOLOv3 stretch images, CenterNet maps boxes back with a transform of its own."""
    requires("pycocotools")
    load_gluoncv()
    from gluoncv.data.transforms.presets.center_net import get_post_transform
    from gluoncv.utils.metrics.coco_detection import COCODetectionMetric

    # Four times the width; other sizes quantkit rounds to whole pixels.
    input_size = (480, 480)
    images, placed = inside(seed), placement(STRETCHED if fit == "stretch" else BOXED, LARGE, input_size)
    listed = [
        {
            "image_id": 1 + place,
            "category_id": 1 + label,
            "bbox": [left, top, right - left, bottom - top],
            "area": (right - left) * (bottom - top),
            "iscrowd": int(ignored),
        }
        for place, (truth, _) in enumerate(images)
        for (left, top, right, bottom), label, ignored in zip(
            truth.corners.tolist(), truth.labels.tolist(), truth.ignored.tolist()
        )
    ]
    document = {
        "images": [{"id": 1 + place, "height": LARGE[0], "width": LARGE[1]} for place in range(len(images))],
        "categories": [{"id": 1 + label} for label in range(CLASSES)],
        "annotations": [{"id": 1 + number, **each} for number, each in enumerate(listed)],
    }
    data = SimpleNamespace(coco=indexed(document), contiguous_id_to_json={label: 1 + label for label in range(CLASSES)})
    transform = None if fit == "stretch" else get_post_transform
    metric = COCODetectionMetric(
        data, str(tmp_path / "seen"), score_thresh=0.0, data_shape=input_size, post_affine=transform
    )
    for each in images:
        ids, scores, boxes = outputs_of(each, placed)
        metric.update(boxes.copy(), ids, scores)
    judge = metric._update()
    judge.summarize()
    assert ours(images, placed, "coco", "pixels") == pytest.approx(judge.stats[:2].tolist(), abs=1e-9)
    assert abs(ours(images, placed, "coco", "edges")[0] - judge.stats[0]) > 5e-3


@pytest.mark.parametrize("rotate180", [False, True])
@pytest.mark.parametrize("fit", ["stretch", "letterbox"])
def test_the_last_pixel_is_that_of_the_image(fit: Any, rotate180: bool) -> None:
    """Also where the network sees the image upside down, and its first pixel last."""
    preprocess = Preprocess(fit=fit, rotate180=rotate180)
    placed = placement(preprocess, (40, 60), (80, 180))
    left, top, right, bottom = placed.boxes_in_input(np.array([[20.0, 14, 31, 26]]))[0]
    # A pixel of the image takes two or three of the input.
    width, height = (3.0, 2.0) if fit == "stretch" else (2.0, 2.0)
    task = Detection("suppressed", (80, 180), (), 1, box_corners="pixels")
    boxes = np.array([[[left, top, right - width, bottom - height]]])
    (seen,) = task.decode([np.zeros((1, 1, 1)), np.ones((1, 1, 1)), boxes])
    np.testing.assert_allclose(task.in_image(seen, placed).boxes, [[20, 14, 31, 26]], atol=1e-9)


def test_detections_end_at_the_images_border() -> None:
    task = Detection("suppressed", (40, 60), (), 1, box_corners="pixels")
    (seen,) = task.decode([np.zeros((1, 1, 1)), np.ones((1, 1, 1)), np.array([[[0.0, 0, 60, 40]]])])
    assert task.in_image(seen, Placement((40, 60), (40, 60))).boxes.tolist() == [[0, 0, 60, 40]]


def test_networks_are_judged_by_their_own_corners(engine: None, tmp_path: Path) -> None:
    edges = (1.0, 1.0, 3.0, 4.0)
    root = voc_folder(tmp_path / "voc", {"a": ((ROWS, COLUMNS), [("cat", edges, 0)])})
    Image.fromarray(pixels(((1.0, 1.0, 2.0, 3.0), 0.9, 0))).save(root / "JPEGImages" / "a.png")
    net = network(pixel_detector(), (3, ROWS, COLUMNS), RAW, ("cat",))
    for corners, value in (("pixels", 1.0), ("edges", 0.0)):
        each = replace(net, box_corners=corners)  # type: ignore[arg-type]
        assert judge("detection", {"network": each}, str(root)).scores["network"][0].value == value


def test_each_network_is_read_by_its_own_corners(engine: None, tmp_path: Path) -> None:
    """Of two that put out the same, only one means what the annotation says."""
    root = voc_folder(tmp_path / "voc", {"a": ((ROWS, COLUMNS), [("cat", (1.0, 1.0, 3.0, 4.0), 0)])})
    Image.fromarray(pixels(((1.0, 1.0, 2.0, 3.0), 0.9, 0))).save(root / "JPEGImages" / "a.png")
    edges = network(pixel_detector(), (3, ROWS, COLUMNS), RAW, ("cat",))
    ended = replace(edges, box_corners="pixels")
    for networks in ({"network": edges, "reference": ended}, {"reference": edges, "network": ended}):
        scores = judge("detection", networks, str(root)).scores  # type: ignore[arg-type]
        for role, each in networks.items():
            assert scores[role][0].value == (1.0 if each is ended else 0.0)  # type: ignore[index]


def test_networks_agree_by_what_they_put_out() -> None:
    size: Size = (20, 20)
    boxes = np.array([[[0.0, 0, 9, 9]]])
    for corners in ("edges", "pixels"):
        task = Detection("suppressed", size, (), 1, box_corners=corners)  # type: ignore[arg-type]
        (seen,) = task.decode([np.zeros((1, 1, 1)), np.ones((1, 1, 1)), boxes])
        assert task.as_truth(seen, size).corners.tolist() == [[0, 0, 9, 9]]
