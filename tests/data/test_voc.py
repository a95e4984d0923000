"""Folders as PASCAL VOC has them: sound ones, and all that can be wrong with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from quantkit.data.decode import decode_classes
from quantkit.data.sources import load_data
from quantkit.data.voc import is_voc, voc_boxes, voc_masks
from quantkit.data.voc_classes import VOC_CLASSES
from quantkit.data.voc_xml import read_voc_annotation
from quantkit.errors import DataError
from tests.data.annotations import annotation, photograph, voc_folder

DOG, CAT = ("dog", (2.0, 3.0, 10.0, 20.0), 0), ("cat", (0.0, 0.0, 30.0, 24.0), 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return voc_folder(tmp_path / "VOC2007", {"b": ((24, 30), [DOG, CAT]), "a": ((5, 6), [])})


def split(folder: Path, name: str, text: str, task: str = "Main") -> None:
    (folder / "ImageSets" / task).mkdir(parents=True, exist_ok=True)
    (folder / "ImageSets" / task / f"{name}.txt").write_text(text)


def test_objects_have_edges_classes_and_flags(folder: Path) -> None:
    data = voc_boxes(folder)
    assert is_voc(folder) and data.classes == VOC_CLASSES and data.samples.name == "VOC2007"
    samples = list(data.samples)
    assert [sample.name for sample in samples] == ["a.png", "b.png"]
    assert [(sample.image.shape, sample.label) for sample in samples] == [((5, 6, 3), None), ((24, 30, 3), None)]
    empty, both = data.truth(0), data.truth(1)
    assert (len(empty), empty.size, empty.corners.shape) == (0, (5, 6), (0, 4))
    assert both.size == (24, 30)
    assert both.corners.tolist() == [[2, 3, 10, 20], [0, 0, 30, 24]]
    assert both.labels.tolist() == [VOC_CLASSES.index("dog"), VOC_CLASSES.index("cat")]
    assert both.ignored.tolist() == [False, True]


def test_a_split_names_images_in_its_order(folder: Path) -> None:
    split(folder, "val", "b  1\n\na -1\n")
    split(folder, "b_only", "b\n")
    assert [sample.name for sample in voc_boxes(folder, "val").samples] == ["b.png", "a.png"]
    chosen = voc_boxes(folder, "b_only")
    assert [sample.name for sample in chosen.samples] == ["b.png"] and chosen.samples.name == "VOC2007, split b_only"
    with pytest.raises(DataError, match=r"Main has no split 'test'; it has b_only, val"):
        voc_boxes(folder, "test")
    with pytest.raises(DataError, match=r"no split '\.\./Main/val'"):
        voc_boxes(folder, "../Main/val")
    (folder / "ImageSets" / "Main" / "marked.txt").write_text("b\n", encoding="utf-8-sig")
    assert [sample.name for sample in voc_boxes(folder, "marked").samples] == ["b.png"]
    split(folder, "far", "../Annotations/b\n")
    with pytest.raises(DataError, match=r"image '\.\./Annotations/b' of .*far\.txt lies outside the folder"):
        voc_boxes(folder, "far")
    split(folder, "twice", "b\na\nb\n")
    with pytest.raises(DataError, match="VOC2007, split twice names the image 'b' twice; name each image once"):
        voc_boxes(folder, "twice")
    split(folder, "none", "\n")
    with pytest.raises(DataError, match="VOC2007, split none names no images"):
        voc_boxes(folder, "none")


def test_the_networks_classes_count(folder: Path) -> None:
    assert voc_boxes(folder, classes=("cat", "dog")).truth(1).labels.tolist() == [1, 0]
    with pytest.raises(DataError, match=r"b\.xml has an object of class 'dog', which is none of the 2 .*`labels` in"):
        voc_boxes(folder, classes=("cat", "cow"))
    with pytest.raises(DataError, match=r"b\.xml has an object of class 'dog', and 2 of the 3 classes are called so"):
        voc_boxes(folder, classes=("cat", "dog", "dog"))


@pytest.mark.parametrize(
    ("edges", "problem"),
    [
        ((2.0, 3.0, 2.0, 20.0), r"object 2 of .*b\.xml, from left to bottom 2, 3, 2, 20, holds no pixel; give left <"),
        ((10.0, 3.0, 2.0, 20.0), "holds no pixel"),
        ((2.0, 3.0, 31.5, 20.0), "reaches out of the image of 30x24 pixels; correct it, or the size"),
        ((-2.0, 3.0, 20.0, 20.0), "reaches out of the image"),
        ((2.0, 3.0, 20.0, 25.5), "reaches out of the image"),
        ((30.0, 3.0, 31.0, 20.0), "holds no pixel"),
    ],
)
def test_boxes_that_cannot_be(folder: Path, edges: tuple[float, float, float, float], problem: str) -> None:
    (folder / "Annotations" / "b.xml").write_text(annotation((24, 30), [DOG, ("cat", edges, 0)]))
    with pytest.raises(DataError, match=problem):
        voc_boxes(folder)


def test_a_box_up_to_a_pixel_outside_is_cut(folder: Path) -> None:
    (folder / "Annotations" / "b.xml").write_text(annotation((24, 30), [("cat", (-1.0, -0.5, 31.0, 24.5), 0)]))
    assert voc_boxes(folder).truth(1).corners.tolist() == [[0, 0, 30, 24]]


def test_images_that_are_missing_or_of_another_size(folder: Path) -> None:
    photograph(folder / "JPEGImages" / "b.png", (30, 24))
    with pytest.raises(DataError, match=r"image b has 24x30 pixels as it is shown, its annotation says 30x24"):
        list(voc_boxes(folder).samples)
    (folder / "JPEGImages" / "b.png").unlink()
    with pytest.raises(DataError, match=r"image 'b' does not exist in .*JPEGImages; add the file, or take it off"):
        voc_boxes(folder)


def test_hidden_files_are_none_of_the_annotations(folder: Path, masks: Path) -> None:
    for hidden in (folder / "Annotations" / "._a.xml", masks / "SegmentationClass" / "._a.png"):
        hidden.write_bytes(b"x")
    assert len(voc_boxes(folder).samples) == 2 and len(voc_masks(masks).samples) == 1


def test_a_suffix_may_be_in_capitals(folder: Path) -> None:
    for name in ("a", "b"):
        (folder / "JPEGImages" / f"{name}.png").rename(folder / "JPEGImages" / f"{name}.PNG")
    assert [sample.name for sample in voc_boxes(folder).samples] == ["a.PNG", "b.PNG"]


def test_nothing_to_find(folder: Path) -> None:
    (folder / "Annotations" / "b.xml").write_text(annotation((24, 30), []))
    with pytest.raises(DataError, match="no image of VOC2007 has an object"):
        voc_boxes(folder)


def test_a_folder_of_another_form(tmp_path: Path) -> None:
    assert not is_voc(tmp_path)
    with pytest.raises(DataError, match=r"has no folder Annotations; give .* VOCdevkit/VOC2007"):
        voc_boxes(tmp_path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no element found"),
        ("<annotation>", "no element found"),
        ("<image/>", "its root is <image>, not <annotation>"),
        ("<annotation/>", "<annotation> has no <size>"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><annotation>&b;</annotation>", "declares a document type"),
        ("<annotation>&b;</annotation>", "undefined entity"),
        ('<?xml version="1.0" encoding="nonsense"?><annotation/>', "encoding"),
        ("<annotation>" * 17, "nest more than 16 deep"),
        (annotation((24, 30), [DOG]).replace("<width>30", "<width>0"), "<width> is 0, not a number of pixels"),
        (annotation((24, 30), [DOG]).replace("<width>30", "<width>2.5"), "<width> is 2.5"),
        (annotation((24, 30), [DOG]).replace("<xmin>3", "<xmin>nan"), "<xmin> is 'nan', not a number"),
        (annotation((24, 30), [DOG]).replace("<xmin>3", "<xmin>"), "<xmin> in <bndbox> is empty"),
        (annotation((24, 30), [DOG]).replace("<name>dog</name>", ""), "<object> has no <name>"),
        (annotation((24, 30), [DOG]).replace("<difficult>0", "<difficult>maybe"), "<difficult> is 'maybe', not 0 or 1"),
    ],
)
def test_annotations_that_are_none(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "x.xml"
    path.write_text(text)
    with pytest.raises(DataError, match=rf"^.*x\.xml is not an annotation of VOC: .*{problem}.*; write it again$"):
        read_voc_annotation(path)


def test_an_annotation_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read annotation .*x\.xml: No such file"):
        read_voc_annotation(tmp_path / "x.xml")


def test_an_object_without_a_flag_is_not_difficult(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    path.write_text(annotation((24, 30), [DOG]).replace("<difficult>0</difficult>", ""))
    assert [each.difficult for each in read_voc_annotation(path).objects] == [False]


@pytest.fixture
def masks(tmp_path: Path) -> Path:
    root = tmp_path / "VOC2012"
    photograph(root / "JPEGImages" / "a.png", (3, 4))
    (root / "SegmentationClass").mkdir()
    painted = Image.fromarray(np.array([[0, 1, 2, 255], [0, 1, 2, 20], [0, 0, 0, 0]], np.uint8))
    painted.putpalette([value for index in range(256) for value in (index, 0, 255 - index)])
    painted.save(root / "SegmentationClass" / "a.png")
    return root


def test_masks_hold_the_class_of_every_pixel(masks: Path) -> None:
    data = voc_masks(masks)
    assert is_voc(masks) and data.classes == ("background", *VOC_CLASSES)
    (sample,) = data.samples
    assert sample.image.shape == (3, 4, 3)
    assert data.truth(0).tolist() == [[0, 1, 2, -1], [0, 1, 2, 20], [0, 0, 0, 0]]
    split(masks, "val", "a\n", "Segmentation")
    assert voc_masks(masks, "val").truth(0).shape == (3, 4)


def test_masks_are_decoded_once_however_far_reading_is_ahead(masks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b", "c", "d"):
        for folder in ("JPEGImages", "SegmentationClass"):
            (masks / folder / f"{name}.png").write_bytes((masks / folder / "a.png").read_bytes())
    decoded: list[str] = []

    def counted(file: Path, name: str) -> np.ndarray:
        decoded.append(file.name)
        return decode_classes(file, name)

    monkeypatch.setattr("quantkit.data.voc.decode_classes", counted)
    data = voc_masks(masks)
    assert len(list(data.samples)) == 4 and not decoded
    for position in range(4):
        for _ in ("network", "reference"):
            assert data.truth(position).shape == data.size(position) == (3, 4)
    assert decoded == ["a.png", "b.png", "c.png", "d.png"]


def test_a_mask_that_is_damaged(masks: Path) -> None:
    (masks / "SegmentationClass" / "a.png").write_bytes(b"\x89PNG")
    with pytest.raises(DataError, match=r"cannot read image .*a\.png: it is none of BMP"):
        list(voc_masks(masks).samples)


def test_a_mask_of_unknown_classes(masks: Path) -> None:
    with pytest.raises(DataError, match=r"a\.png has the class 20, but there are 3 classes \(0 to 2, and 255 for"):
        voc_masks(masks, classes=("background", "a", "b")).truth(0)


def test_a_mask_of_colours(masks: Path) -> None:
    photograph(masks / "SegmentationClass" / "a.png", (3, 4))
    with pytest.raises(DataError, match=r"a\.png is of mode RGB, not one value of 8 bits a pixel; save its classes"):
        voc_masks(masks).truth(0)


def test_a_mask_of_another_size(masks: Path) -> None:
    photograph(masks / "JPEGImages" / "a.png", (4, 3))
    with pytest.raises(DataError, match="image a has 3x4 pixels as it is shown, its annotation says 4x3"):
        list(voc_masks(masks).samples)


def test_photographs_alone_calibrate(folder: Path) -> None:
    split(folder, "val", "b  1\n")
    assert [sample.name for sample in load_data(folder)] == ["a.png", "b.png"]
    assert load_data(folder).name == "VOC2007"
    assert [sample.name for sample in load_data(f"{folder}:val")] == ["b.png"]
    split(folder, "val", "a\n", "Segmentation")
    split(folder, "train", "a\n", "Segmentation")
    # Splits of detection come first.
    assert [sample.name for sample in load_data(f"{folder}:val")] == ["b.png"]
    assert [sample.name for sample in load_data(f"{folder}:train")] == ["a.png"]
    with pytest.raises(DataError, match=r"Main has no split 'test'; it has val"):
        load_data(f"{folder}:test")
    with pytest.raises(DataError, match=r"no split '\.\./Segmentation/train'"):
        load_data(f"{folder}:../Segmentation/train")


def test_splits_of_masks_alone_calibrate(masks: Path) -> None:
    split(masks, "train", "a\n", "Segmentation")
    assert [sample.name for sample in load_data(f"{masks}:train")] == ["a.png"]
    with pytest.raises(DataError, match=r"Segmentation has no split 'val'; it has train"):
        load_data(f"{masks}:val")
