"""Annotations as COCO has them: sound ones, and all that can be wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quantkit.data import coco_json
from quantkit.data.coco import coco_boxes
from quantkit.errors import DataError
from tests.data.annotations import coco_document, coco_file, photograph

IMAGES: dict[str, Any] = {
    "z.png": ((24, 30), [("dog", (2.0, 3.5, 10.0, 20.0), 0), ("cat", (0.0, 0.0, 30.0, 24.0), 1)]),
    "a.png": ((5, 6), []),
}
CATEGORIES = {"dog": 44, "cow": 18, "cat": 17}


@pytest.fixture
def document() -> dict[str, Any]:
    return coco_document(IMAGES, CATEGORIES)


def test_objects_have_edges_classes_and_flags(tmp_path: Path, document: dict[str, Any]) -> None:
    data = coco_boxes(coco_file(tmp_path, document))
    assert data.classes == ("cat", "cow", "dog") and data.samples.name == "instances_val.json"
    assert [(sample.name, sample.image.shape) for sample in data.samples] == [
        ("a.png", (5, 6, 3)),
        ("z.png", (24, 30, 3)),
    ]
    empty, both = data.truth(0), data.truth(1)
    assert (len(empty), empty.size, both.size) == (0, (5, 6), (24, 30))
    assert both.corners.tolist() == [[2, 3.5, 10, 20], [0, 0, 30, 24]]
    assert (both.labels.tolist(), both.ignored.tolist()) == ([2, 0], [False, True])


@pytest.mark.parametrize("folder", ["annotations", "annotations/images", "val", "images/val", "images"])
def test_images_lie_in_one_of_the_usual_folders(tmp_path: Path, document: dict[str, Any], folder: str) -> None:
    path = coco_file(tmp_path, document)
    (tmp_path / folder).parent.mkdir(parents=True, exist_ok=True)
    if folder == "annotations":
        for image in (tmp_path / "val").iterdir():
            image.rename(tmp_path / folder / image.name)
    elif folder != "val":
        (tmp_path / "val").rename(tmp_path / folder)
    assert len(list(coco_boxes(path).samples)) == 2


def test_the_networks_classes_count(tmp_path: Path, document: dict[str, Any]) -> None:
    path = coco_file(tmp_path, document)
    assert coco_boxes(path, ("dog", "bird", "cat")).truth(1).labels.tolist() == [0, 2]
    with pytest.raises(DataError, match=r"has an object of class 'cat', which is none of the 2 classes \(dog, cow"):
        coco_boxes(path, ("dog", "cow"))
    with pytest.raises(DataError, match=r"object of class 'cat', and 2 of the 3 classes are called so; give each a"):
        coco_boxes(path, ("cat", "dog", "cat"))
    assert coco_boxes(path, ("cow", "cat", "dog", "cow")).truth(1).labels.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (("images", 0, "file_name"), "../val/z.png", r"image '\.\./val/z\.png' of .* lies outside the folder"),
        (("images", 0, "file_name"), "/z.png", "lies outside the folder"),
        (("images", 0, "file_name"), "y.png", r"image 'y\.png' of .* does not exist in .*val; add the file"),
        (("images", 0, "width"), 20, "reaches out of the image of 20x24 pixels"),
        (("images", 0, "width"), 0, r"is damaged at images\.0\.width: .* greater than 0; write it again"),
        (("images", 0, "width"), "30", r"images\.0\.width: .* valid integer"),
        (("images", 0, "id"), 8, r"two entries of .* are image 8; give each its own id"),
        (("categories", 0, "id"), 17, "are category 17"),
        (("categories", 0, "name"), "cat", r"object of class 'cat', and 2 of the 3 classes are called so"),
        (("annotations", 0, "image_id"), 3, r"annotations\.0 of .* names the image 3, which is not listed"),
        (("annotations", 1, "category_id"), 3, r"annotations\.1 of .* names the category 3"),
        (("annotations", 0, "bbox"), [1, 2, 3], r"annotations\.0\.bbox"),
        (("annotations", 0, "bbox"), [5, 2, -3, 4], r"object 1 of image z\.png of .* holds no pixel"),
        (("annotations", 0, "bbox"), [1, 2, 1e308, 4], "reaches out of the image"),
        (("annotations", 0, "bbox"), [1, 2, float("nan"), 4], r"damaged at annotations\.0\.bbox\.2|its beginning"),
        (("annotations", 0, "iscrowd"), 2, r"annotations\.0\.iscrowd"),
        (("annotations",), [], "lists no object"),
        (("images",), {}, "damaged at images"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, document: dict[str, Any], place: tuple[Any, ...], value: Any, problem: str
) -> None:
    path = coco_file(tmp_path, document)
    part: Any = document
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    path.write_text(json.dumps(document))
    with pytest.raises(DataError, match=problem):
        coco_boxes(path)


def test_boxes_of_no_pixel_are_noted(tmp_path: Path, document: dict[str, Any]) -> None:
    assert coco_boxes(coco_file(tmp_path, document)).notes == ()
    first, crowd = document["annotations"]
    # As in COCO's instances_train2017.json.
    document["annotations"] += [first | {"bbox": [5, 2, 3, 0]}, first | {"bbox": [30, 2, 0.5, 4]}]
    # To miss a crowd is no fault.
    document["annotations"].append(crowd | {"bbox": [7, 2, 0, 4]})
    data = coco_boxes(coco_file(tmp_path / "empty", document))
    assert data.truth(1).corners.tolist()[2:] == [[5, 2, 8, 2], [30, 2, 30, 6], [7, 2, 7, 6]]
    assert data.notes == ("objects in the file that hold no pixel, and count as missed as in pycocotools: 2",)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b'{"images": []}', b"[" * 10_000])
def test_files_that_are_no_annotations(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"x\.json is damaged at"):
        coco_boxes(path)


def test_images_of_another_size_show_when_they_are_read(tmp_path: Path, document: dict[str, Any]) -> None:
    path = coco_file(tmp_path, document)
    photograph(tmp_path / "val" / "z.png", (30, 24))
    data = coco_boxes(path)
    with pytest.raises(DataError, match=r"z\.png has 24x30 pixels as it is shown, its annotation says 30x24"):
        list(data.samples)


def test_a_file_that_is_missing_or_too_large(
    tmp_path: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match=r"cannot read annotations .*: No such file"):
        coco_boxes(tmp_path / "x.json")
    path = coco_file(tmp_path, document)
    monkeypatch.setattr(coco_json, "_LARGEST", 100)
    with pytest.raises(DataError, match=r"more than 100 bytes; give the file, or one of fewer images"):
        coco_boxes(path)
