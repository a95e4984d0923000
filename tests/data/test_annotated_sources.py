"""Annotated images by one name, and what opens their images elsewhere."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from quantkit.data.annotated import AnnotatedImages
from quantkit.data.annotated_sources import Opened, is_coco, load_boxes, load_masks, load_people
from quantkit.data.samples import Samples
from quantkit.data.sources import load_data
from quantkit.errors import DataError
from tests.data.annotations import Object, coco_document, coco_file, photograph, voc_folder

BOX: Object = ("cat", (1, 2, 9, 12), 0)
IMAGES = {"b.png": ((20, 30), [BOX]), "a.png": ((24, 16), [BOX]), "c.png": ((16, 16), [])}


def voc(root: Path) -> str:
    return str(voc_folder(root / "voc", {name.removesuffix(".png"): each for name, each in IMAGES.items()}))


def masks(root: Path) -> str:
    folder = Path(voc(root))
    (folder / "SegmentationClass").mkdir()
    Image.fromarray(np.zeros((20, 30), np.uint8)).save(folder / "SegmentationClass" / "b.png")
    return str(folder)


def coco(root: Path) -> str:
    return str(coco_file(root / "coco", coco_document(IMAGES, {"cat": 3})))


def people(root: Path) -> str:
    document = coco_document(IMAGES, {"person": 1} | {"cat": 3})
    joints = {"keypoints": [4, 5, 2] * 17, "num_keypoints": 17, "area": 80.0}
    document["annotations"] = [{**each, **joints, "category_id": 1} for each in document["annotations"]]
    return str(coco_file(root / "people", document))


def images(samples: Samples) -> list[np.ndarray]:
    return [np.asarray(sample.image) for sample in samples]


@pytest.mark.parametrize(
    ("write", "load"),
    [
        (voc, lambda name: load_boxes(name, ("cat",))),
        (coco, load_boxes),
        (masks, load_masks),
        (people, lambda name: load_people(name, (64, 48), 17)),
    ],
)
def test_images_are_opened_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: object, load: object
) -> None:
    assert callable(write) and callable(load)
    name = write(tmp_path)
    monkeypatch.chdir(tmp_path)
    opened: Opened[object] = load(str(Path(name).relative_to(tmp_path)))
    assert isinstance(opened, AnnotatedImages) and opened.samples.address is not None
    address = pickle.loads(pickle.dumps(opened.samples.address))
    assert address.name == name
    here = images(opened.samples)
    monkeypatch.chdir("/")
    elsewhere = address.open()
    assert elsewhere.address == opened.samples.address
    for one, other in zip(here, images(elsewhere), strict=True):
        np.testing.assert_array_equal(one, other)


def test_splits_keep_their_name(tmp_path: Path) -> None:
    folder = Path(voc(tmp_path))
    (folder / "ImageSets" / "Main").mkdir(parents=True)
    (folder / "ImageSets" / "Main" / "val.txt").write_text("c\na\n")
    opened = load_boxes(f"{folder}:val", ("cat",))
    assert isinstance(opened, AnnotatedImages) and opened.samples.address is not None
    assert not isinstance(opened.samples.address, str)
    assert opened.samples.address.name == f"{folder}:val"
    assert [sample.image.shape[:2] for sample in opened.samples.address.open()] == [(16, 16), (24, 16)]


def test_other_images_come_alone(tmp_path: Path) -> None:
    photograph(tmp_path / "plain" / "a.png", (8, 8))
    plain = str(tmp_path / "plain")
    for opened in (load_boxes(plain), load_masks(plain), load_people(plain, (64, 48), 17)):
        assert isinstance(opened, Samples) and opened.address == load_data(plain).address == plain


def test_boxes_are_no_masks(tmp_path: Path) -> None:
    name = coco(tmp_path)
    assert is_coco(name) and not is_coco("s3://bucket/instances.json")
    with pytest.raises(DataError, match="holds boxes, not the class of every pixel"):
        load_masks(name)
