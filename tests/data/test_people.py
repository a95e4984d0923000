"""People cut out of photographs, with their joints."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.data.annotated_sources import load_people
from quantkit.data.coco_people import coco_people
from quantkit.data.decode import PIXELS_VARIABLE, decode
from quantkit.data.people import Region, region_around
from quantkit.data.samples import Samples
from quantkit.errors import DataError
from tests.data.annotations import coco_file

HEIGHT, WIDTH = 60, 80
INPUT = (64, 48)
JOINTS = [[20, 10, 2], [0, 0, 0], [31, 40, 1]]
PERSON = {"id": 1, "image_id": 5, "category_id": 1, "bbox": [10, 5, 30, 50], "area": 900.5, "iscrowd": 0}


def document(**changes: Any) -> dict[str, Any]:
    keypoints = [number for joint in JOINTS for number in joint]
    return {
        "images": [{"id": 5, "file_name": "a.png", "height": HEIGHT, "width": WIDTH}],
        "categories": [{"id": 1, "name": "person"}],
        "annotations": [PERSON | {"keypoints": keypoints} | changes],
    }


def test_a_region_has_the_proportions_of_the_input_and_a_margin() -> None:
    assert region_around([10, 5, 30, 40], INPUT) == Region(6, 0, 38, 50)
    wide = region_around([0, 0, 60, 10], INPUT)
    assert (wide.width, wide.height) == (75, 100) and (wide.left, wide.top) == (-8, -45)


@pytest.mark.parametrize("region", [Region(3, 4, 10, 12), Region(-5, -7, 30, 20), Region(70, 50, 30, 40)])
def test_what_lies_beyond_the_image_is_black(region: Region) -> None:
    image = np.random.default_rng(0).integers(1, 256, (HEIGHT, WIDTH, 3), np.uint8)
    padded = np.pad(image, ((100, 100), (100, 100), (0, 0)))
    top, left = region.top + 100, region.left + 100
    np.testing.assert_array_equal(region.cut(image), padded[top : top + region.height, left : left + region.width])


def test_each_person_is_an_image(tmp_path: Path) -> None:
    path = coco_file(tmp_path, document())
    people = coco_people(path, INPUT, 3)
    (sample,) = people.samples.read([0])
    truth, region = people.truth(0), region_around([10, 5, 30, 50], INPUT)
    assert sample.image.shape[:2] == people.size(0) == region.size
    assert (truth.visible.tolist(), truth.area) == ([True, False, True], 900.5)
    photograph = decode(tmp_path / "val" / "a.png", "a")
    for index in (0, 2):
        x, y = (round(value) for value in truth.points[index])
        np.testing.assert_array_equal(sample.image[y, x], photograph[JOINTS[index][1], JOINTS[index][0]])


def test_people_go_with_their_own_parts_and_joints(tmp_path: Path) -> None:
    given = document()
    (first,) = given["annotations"]
    given["images"].append({"id": 3, "file_name": "b.png", "height": 50, "width": 40})
    joints = [8, 9, 2, 0, 0, 0, 12, 30, 2]
    given["annotations"] += [
        first | {"image_id": 3, "bbox": [5, 4, 20, 40], "keypoints": joints, "area": 300},
        first | {"bbox": [30, 20, 20, 20], "keypoints": [40, 30, 2] * 3, "area": 200},
    ]
    people = coco_people(coco_file(tmp_path, given), INPUT, 3)
    wanted = (("b.png", [8, 9], 300), ("a.png", [20, 10], 900.5), ("a.png", [40, 30], 200))
    for position, (sample, (name, (x, y), area)) in enumerate(zip(people.samples, wanted, strict=True)):
        truth = people.truth(position)
        assert sample.name == f"{name} (person {position})" and truth.area == area
        assert sample.image.shape[:2] == people.size(position)
        column, row = (round(value) for value in truth.points[0])
        photograph = decode(tmp_path / "val" / name, name)
        np.testing.assert_array_equal(sample.image[row, column], photograph[y, x])


def test_a_photograph_is_decoded_once_for_all_its_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = document()
    (first,) = given["annotations"]
    given["images"].append({"id": 3, "file_name": "b.png", "height": HEIGHT, "width": WIDTH})
    given["annotations"] = [first | {"image_id": number} for number in (5, 3, 5, 3, 5, 3, 5)]
    path = coco_file(tmp_path, given)
    decoded: list[str] = []

    def counted(file: Path, name: str) -> np.ndarray:
        decoded.append(file.name)
        return decode(file, name)

    monkeypatch.setattr("quantkit.data.coco_people.decode", counted)
    people = coco_people(path, INPUT, 3)
    assert people.photographs == [3, 3, 3, 5, 5, 5, 5]
    with ThreadPoolExecutor(8) as pool:
        samples = list(pool.map(lambda read: read(), people.samples.deferred()))
    assert len(samples) == 7 and sorted(decoded) == ["a.png", "b.png"]
    np.testing.assert_array_equal(samples[6].image, next(iter(people.samples.read([6]))).image)


def test_only_people_with_marked_joints_count(tmp_path: Path) -> None:
    given = document()
    hidden = given["annotations"][0] | {"id": 2, "keypoints": [0] * 9}
    crowd = given["annotations"][0] | {"id": 3, "iscrowd": 1, "keypoints": [0] * 6}
    given["annotations"] = [hidden, crowd, *given["annotations"]]
    assert coco_people(coco_file(tmp_path, given), INPUT, 3).samples.size == 1


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"keypoints": [0] * 9}, "no person of .* has a marked joint; give annotated images"),
        ({"keypoints": [1, 1, 2] * 4}, r"annotations\.0 of .* has 12 numbers for joints, the network needs .* of 3"),
        ({"keypoints": []}, r"damaged at annotations\.0\.keypoints"),
        ({"keypoints": ["x"] * 9}, r"damaged at annotations\.0\.keypoints"),
        ({"area": -1}, r"damaged at annotations\.0\.area"),
        ({"bbox": [60, 5, 30, 50]}, "reaches out of the image of 80x60 pixels"),
        ({"bbox": [10, 5, 0, 50]}, "holds no pixel"),
        ({"image_id": 6}, r"annotations\.0 of .* names the image 6, which is not listed"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    path = coco_file(tmp_path, document(**changes))
    with pytest.raises(DataError, match=problem):
        coco_people(path, INPUT, 3)


def test_a_part_has_no_more_pixels_than_an_image_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A strip as wide as the image takes 100 x 133 pixels in the proportions of the input.
    path = coco_file(tmp_path, document(bbox=[0, 20, 80, 1]))
    assert coco_people(path, INPUT, 3).size(0) == (133, 100)
    monkeypatch.setenv(PIXELS_VARIABLE, "13299")
    with pytest.raises(DataError, match=r"a\.png of .* has a box of 80x1 pixels, which takes 100x133 .* than 13299; "):
        coco_people(path, INPUT, 3)


def test_a_missing_photograph(tmp_path: Path) -> None:
    path = coco_file(tmp_path, document())
    (tmp_path / "val" / "a.png").unlink()
    with pytest.raises(DataError, match=r"image 'a\.png' of .* does not exist"):
        coco_people(path, INPUT, 3)


def test_other_images_are_people_without_annotations(tmp_path: Path) -> None:
    path = coco_file(tmp_path, document())
    assert isinstance(load_people(str(tmp_path / "val"), INPUT, 3), Samples)
    boxes_alone = document()
    del boxes_alone["annotations"][0]["keypoints"]
    path.write_text(json.dumps(boxes_alone))
    with pytest.raises(DataError, match=r"damaged at annotations\.0\.keypoints: Field required"):
        load_people(str(path), INPUT, 3)
