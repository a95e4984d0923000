"""Judging by a task on data of a name: which classes and whose rules count."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from PIL import Image

from quantkit.errors import DataError, UserError
from quantkit.tasks.judge import judge
from tests.data.annotations import coco_document, coco_file, voc_folder
from tests.requirements import requires
from tests.tasks.networks import COLUMNS, RAW, ROWS, network, pixel_detector, pixels

SIZE = (ROWS, COLUMNS)
CAT, DOG = (0.0, 0.0, 3.0, 6.0), (2.0, 5.0, 6.0, 11.0)


def drawn(path: Path, *seen: tuple[tuple[float, float, float, float], float, int]) -> None:
    Image.fromarray(pixels(*seen)).save(path)


def test_the_names_of_the_network_decide_which_class_is_which(engine: None, tmp_path: Path) -> None:
    root = voc_folder(tmp_path / "voc", {"a": (SIZE, [("cat", CAT, 0), ("dog", DOG, 0)])})
    drawn(root / "JPEGImages" / "a.png", (CAT, 0.9, 1), (DOG, 0.8, 0))
    for labels, value in ((("dog", "cat"), 1.0), (("cat", "dog"), 0.0)):
        net = network(pixel_detector(), (3, ROWS, COLUMNS), RAW, labels)
        assert judge("detection", {"network": net}, str(root)).scores["network"][0].value == value
    unnamed = network(pixel_detector(), (3, ROWS, COLUMNS), RAW)
    # Without names they are VOC's, of which 0 and 1 are the aeroplane and the bicycle.
    assert judge("detection", {"network": unnamed}, str(root)).scores["network"][0].value == 0.0
    with pytest.raises(DataError, match="object of class 'cat', which is none of the 1 classes"):
        judge("detection", {"network": network(pixel_detector(), (3, ROWS, COLUMNS), RAW, ("dog",))}, str(root))


def test_coco_files_are_judged_by_cocos_rules_in_their_own_order(engine: None, tmp_path: Path) -> None:
    requires("pycocotools")
    images = {"a.png": (SIZE, [("cat", CAT, 0), ("dog", DOG, 1)])}
    path = coco_file(tmp_path, coco_document(images, {"dog": 9, "cat": 4}))
    # The dog is a crowd: to miss it is no fault, nor is a second look.
    drawn(tmp_path / "val" / "a.png", (CAT, 0.9, 0))
    net = network(pixel_detector(), (3, ROWS, COLUMNS), RAW)
    path = path.rename(path.with_suffix(".JSON"))
    evaluation = judge("detection", {"network": net}, str(path))
    assert [(score.name, score.value) for score in evaluation.scores["network"]] == [
        ("COCO AP", pytest.approx(1.0)), ("COCO AP50", pytest.approx(1.0)),
    ]  # fmt: skip


def test_objects_of_no_pixel_count_as_in_pycocotools(engine: None, tmp_path: Path) -> None:
    requires("pycocotools")
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    flat = (1.0, 4.0, 3.0, 4.0)
    images = {"a.png": (SIZE, [("cat", CAT, 0), ("cat", flat, 0)]), "b.png": (SIZE, [("cat", DOG, 0)])}
    document = coco_document(images, {"cat": 4})
    for number, each in enumerate(document["annotations"], 1):
        each.update(id=number, area=each["bbox"][2] * each["bbox"][3])
    path = coco_file(tmp_path, document)
    drawn(tmp_path / "val" / "a.png", (CAT, 0.9, 0), (flat, 0.8, 0))
    drawn(tmp_path / "val" / "b.png", (DOG, 0.7, 0))
    net = network(pixel_detector(), (3, ROWS, COLUMNS), RAW)
    evaluation = judge("detection", {"network": net}, str(path))
    with redirect_stdout(io.StringIO()):
        truth = COCO(str(path))
        numbers = {each["file_name"]: each["id"] for each in truth.dataset["images"]}
        seen = [("a.png", CAT, 0.9), ("a.png", flat, 0.8), ("b.png", DOG, 0.7)]
        found = truth.loadRes([
            {"image_id": numbers[name], "category_id": 4, "score": score,
             "bbox": [left, top, right - left, bottom - top]}
            for name, (left, top, right, bottom), score in seen
        ])  # fmt: skip
        judged = COCOeval(truth, found, "bbox")
        judged.evaluate()
        judged.accumulate()
        judged.summarize()
    scores = [score.value for score in evaluation.scores["network"]]
    assert scores == pytest.approx(judged.stats[:2].tolist(), abs=1e-9) and 0.5 < judged.stats[0] < 0.7
    assert evaluation.document["notes"] == [
        "objects in the file that hold no pixel, and count as missed as in pycocotools: 1"
    ]


def test_unnamed_classes_are_those_that_occur(engine: None, tmp_path: Path) -> None:
    drawn(tmp_path / "a.png", (CAT, 0.9, 3), (DOG, 0.8, 7))
    net = network(pixel_detector(), (3, ROWS, COLUMNS), RAW)
    evaluation = judge("detection", {"network": net, "reference": net}, str(tmp_path))
    assert evaluation.agreement["network"][0].value == 1.0 and evaluation.loss == 0.0


def test_outputs_are_held_to_the_task_before_data_are_read(engine: None) -> None:
    net = network(pixel_detector(), (3, ROWS, COLUMNS), RAW)
    with pytest.raises(UserError, match="segmentation needs outputs"):
        judge("segmentation", {"network": net}, "no/such/folder")
    with pytest.raises(DataError, match="there is no sample data 'no/such/folder'"):
        judge("detection", {"network": net}, "no/such/folder")
