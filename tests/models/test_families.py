"""The families of GluonCV's zoo: each network is of one, is built without downloads, and reads what it was made for."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from quantkit.backends.mxnet.compat import load_gluoncv, load_mxnet
from quantkit.backends.mxnet.zoo import zoo_names
from quantkit.data.builtin import photographs
from quantkit.data.placement import placement
from quantkit.data.preprocess import apply
from quantkit.data.voc_classes import VOC_CLASSES
from quantkit.errors import ModelError
from quantkit.models import names as module
from quantkit.models.card import Card
from quantkit.models.families import FAMILIES, family_of, fp32_name
from quantkit.models.load import load_model
from quantkit.models.locate import locate
from quantkit.models.names import built, zoo_card


@pytest.fixture
def no_downloads(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    load_gluoncv()
    from gluoncv.model_zoo import model_store

    def refused(*args: object, **options: object) -> None:
        raise AssertionError(f"{args} were to be downloaded")

    monkeypatch.setattr(model_store, "get_model_file", refused)


def functions() -> Iterator[tuple[str, Any]]:
    registry = load_gluoncv().model_zoo.model_zoo._models
    return ((name, registry[name]) for name in zoo_names())


def test_every_network_of_the_zoo_is_of_a_family(engine: None) -> None:
    assert len(zoo_names()) > 300
    assert [name for name in zoo_names() if family_of(name) is None] == []


def test_every_pattern_decides_about_a_network(engine: None) -> None:
    """A pattern after a wider one of the same networks would never be looked at."""
    names = (*zoo_names(), "inception_bn")
    idle = [
        pattern
        for family in FAMILIES
        for pattern in family.patterns
        if not any(family_of(name) is family and fnmatchcase(name, pattern) for name in names)
    ]
    assert idle == []


def test_preprocessing_yields_the_input() -> None:
    photograph = np.random.default_rng(0).integers(0, 256, (60, 80, 3)).astype(np.uint8)
    for family in FAMILIES:
        if family.preprocess is not None:
            assert apply(family.preprocess, photograph, "it", family.input_shape).shape == family.input_shape


def test_only_clips_and_pairs_of_images_have_no_preprocessing() -> None:
    without = [family for family in FAMILIES if family.preprocess is None]
    pairs = [family.name for family in without if len(family.input_shape) == 3]
    assert pairs == ["monodepth2", "siamrpn"]


@pytest.mark.parametrize(
    ("name", "family", "task", "shape"),
    [
        ("cifar_resnet20_v1", "resnet", "classification", (3, 32, 32)),
        ("resnet50_v1b_gn", "resnet", "classification", (3, 224, 224)),
        ("resnet50_v1d_0.86", "resnet", "classification", (3, 224, 224)),
        ("inceptionv3", "inceptionv3", "classification", (3, 299, 299)),
        ("inceptionv3_ucf101", "inceptionv3", "action", (3, 299, 299)),
        ("resnet50_v1b_hmdb51", "resnet", "action", (3, 224, 224)),
        ("vgg16_bn", "vgg", "classification", (3, 224, 224)),
        ("vgg16_sthsthv2", "vgg", "action", (3, 224, 224)),
        ("nasnet_6_4032", "nasnet", "classification", (3, 331, 331)),
        ("resnest269", "resnest", "classification", (3, 416, 416)),
        ("ssd_300_vgg16_atrous_voc", "ssd", "detection", (3, 300, 300)),
        ("ssd_512_resnet50_v1_custom", "ssd", "detection", (3, 512, 512)),
        ("yolo3_darknet53_coco", "yolo3", "detection", (3, 416, 416)),
        ("custom_mask_rcnn_fpn", "rcnn", "detection", (3, 600, 800)),
        ("doublehead_rcnn_resnet50_v1b_voc", "rcnn", "detection", (3, 600, 800)),
        ("siamrpn_alexnet_v2_otb15", "siamrpn", "tracking", (3, 287, 414)),
        ("fcn_resnet50_ade", "fcn", "segmentation", (3, 480, 480)),
        ("hrnet_w48_s", "hrnet", "segmentation", (3, 480, 480)),
        ("hrnet_w48_c", "hrnet", "classification", (3, 224, 224)),
        ("simple_pose_resnet18_v1b", "simple_pose", "pose", (3, 256, 192)),
        ("i3d_inceptionv3_kinetics400", "i3d", "action", (3, 32, 299, 299)),
        ("slowfast_16x8_resnet101_50_50_kinetics400", "slowfast", "action", (3, 80, 224, 224)),
        ("monodepth2_resnet18_posenet_kitti_mono_640x192", "monodepth2", "depth", (6, 192, 640)),
    ],
)
def test_families(name: str, family: str, task: str, shape: tuple[int, ...]) -> None:
    found = family_of(name)
    assert found is not None
    assert (found.name, found.task, found.input_shape) == (family, task, shape)


@pytest.mark.parametrize(
    ("name", "corners"),
    [
        ("ssd_300_vgg16_atrous_voc", "pixels"),
        ("ssd_512_mobilenet1.0_coco", "pixels"),
        ("yolo3_darknet53_custom", "pixels"),
        ("center_net_dla34_coco", "pixels"),
        ("faster_rcnn_fpn_syncbn_resnest50_coco", "pixels"),
        ("doublehead_rcnn_resnet50_v1b_voc", "pixels"),
        ("custom_faster_rcnn_fpn", "pixels"),
        ("mask_rcnn_fpn_resnet50_v1b_coco", "edges"),
        ("custom_mask_rcnn_fpn", "edges"),
        ("fcn_resnet50_ade", "edges"),
    ],
)
def test_the_corners_of_boxes(name: str, corners: str) -> None:
    """``tests/tasks/test_box_corners.py`` holds them against GluonCV's data."""
    found = family_of(name)
    assert found is not None and found.box_corners == corners


def test_what_gluoncv_would_fetch_is_switched_off(engine: None) -> None:
    fetching = []
    for name, function in functions():
        family = family_of(name)
        if family is None or fp32_name(name):
            continue
        options = dict(family.options_at(name, family.input_shape))
        for parameter in inspect.signature(function).parameters.values():
            if "pretrain" in parameter.name and parameter.default is True and options.get(parameter.name) is not False:
                fetching.append((name, parameter.name))
    assert fetching == []


def test_what_gluoncv_must_be_told_is_given(engine: None) -> None:
    lacking = []
    for name, function in functions():
        family = family_of(name)
        if family is None or fp32_name(name):
            continue
        wanted = inspect.signature(function).parameters.values()
        required = {each.name for each in wanted if each.default is each.empty and each.kind is not each.VAR_KEYWORD}
        lacking += [(name, each) for each in required - dict(family.options_at(name, family.input_shape)).keys()]
    assert lacking == []


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("ssd_300_mobilenet0.25_custom", 20),
        ("yolo3_mobilenet0.25_coco", 80),
        ("center_net_resnet18_v1b_voc", 20),
        # MXNet 1.6 cannot resize with aligned corners.
        pytest.param("hrnet_w18_small_v1_s", 19, marks=pytest.mark.requires("onednn")),
        ("fastscnn_citys", 19),
        ("mobile_pose_mobilenetv3_small", 17),
        ("resnet18_v1b_custom", 400),
        ("r2plus1d_resnet18_kinetics400", 400),
        ("monodepth2_resnet18_kitti_mono_640x192", 1),
        ("resnet50_v1b_gn", 1000),
        ("siamrpn_alexnet_v2_otb15", 10),
        ("custom_faster_rcnn_fpn", 20),
        ("mask_rcnn_fpn_syncbn_resnet18_v1b_coco", 80),
    ],
)
def test_networks_are_built_without_downloads(no_downloads: None, name: str, classes: int) -> None:
    card = zoo_card(name)
    assert card is not None
    assert card.classes == classes
    assert card.box_corners == getattr(family_of(name), "box_corners", None)
    assert (card.labels == VOC_CLASSES) == (classes == 20)


@pytest.mark.parametrize("shape", [(3, 64, 128), (3, 96, 96)])
def test_segmentation_networks_are_built_for_the_size_of_their_input(
    no_downloads: None, shape: tuple[int, ...]
) -> None:
    # Its last operator resizes to the size that it was built for.
    assert built("fastscnn_citys", shape).classes == 19


@pytest.mark.parametrize("name", ["yolo3_darknet53_custom", "faster_rcnn_resnet50_v1b_custom", "custom_mask_rcnn_fpn"])
def test_classes_of_a_detector_without_a_data_set(name: str) -> None:
    family = family_of(name)
    assert family is not None
    assert dict(family.options_at(name, family.input_shape, ("a", "b")))["classes"] == ("a", "b")
    assert "classes" not in dict(family.options_at("yolo3_darknet53_voc", (3, 416, 416), ("a", "b")))


@pytest.mark.parametrize("name", ["resnet50_v1", "simple_pose_resnet18_v1b"])
def test_int8_networks_of_gluoncv_stand_for_those_that_quantkit_quantizes(no_downloads: None, name: str) -> None:
    """One of them has a card that ships, the other has none."""
    model, itself = (load_model(each, weights="random", quiet=True) for each in (f"{name}_int8", name))
    assert (model.name, model.input_shape, model.task) == (name, itself.input_shape, itself.task)
    assert model.graph.names == itself.graph.names
    assert model.notes == (f"{name}_int8 is GluonCV's own INT8 network; quantkit quantizes {name}",)
    assert itself.notes == ()
    stands, card = locate(f"{name}_int8"), locate(name)
    assert isinstance(stands, Card) and replace(stands, notes=()) == card


def test_every_int8_network_of_gluoncv_has_one_that_is_quantized(engine: None) -> None:
    originals = [fp32_name(name) for name in zoo_names() if fp32_name(name)]
    assert len(originals) == 22
    assert set(originals) <= set(zoo_names())


def test_an_int8_network_without_an_fp32_one_is_refused(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "zoo_names", lambda: ("resnet7_int8",))
    with pytest.raises(ModelError, match=r"^resnet7_int8 cannot be quantized: .* the zoo has no resnet7 to quantize"):
        zoo_card("resnet7_int8")


def test_a_card_cannot_be_of_an_int8_network(engine: None) -> None:
    with pytest.raises(ModelError, match=r"^mobilenet1\.0_int8 is GluonCV's own INT8 network; give mobilenet1\.0,"):
        built("mobilenet1.0_int8", (3, 224, 224))


@pytest.mark.parametrize(
    ("name", "module", "transform"),
    [
        ("ssd_512_resnet50_v1_voc", "ssd", "SSDDefaultValTransform"),
        ("yolo3_darknet53_coco", "yolo", "YOLO3DefaultValTransform"),
        ("center_net_resnet18_v1b_voc", "center_net", "CenterNetDefaultValTransform"),
    ],
)
def test_detectors_see_images_as_gluoncv_shows_them(engine: None, name: str, module: str, transform: str) -> None:
    load_gluoncv()
    mxnet = load_mxnet()
    family = family_of(name)
    assert family is not None and family.preprocess is not None
    _, height, width = family.input_shape
    photograph = np.ascontiguousarray(next(iter(photographs().read([3]))).image[:300, :200])
    size = (photograph.shape[0], photograph.shape[1])
    presets = import_module(f"gluoncv.data.transforms.presets.{module}")
    boxes = np.array([[20.0, 30.0, 120.0, 180.0, 0.0]])
    image, mapped = getattr(presets, transform)(width, height)(mxnet.nd.array(photograph, dtype="uint8"), boxes.copy())
    # Its interpolation is another one.
    other = replace(family.preprocess, fit="stretch" if family.preprocess.fit == "letterbox" else "letterbox")
    deviation, of_other = (
        float(np.abs(apply(each, photograph, "it", family.input_shape) - image.asnumpy()).mean())
        for each in (family.preprocess, other)
    )
    assert deviation < 0.05 < 5 * 0.05 < of_other
    placed = placement(family.preprocess, size, (height, width))
    np.testing.assert_allclose(placed.boxes_in_input(boxes[:, :4]), mapped[:, :4], atol=1.0)


@pytest.mark.parametrize("name", ["fcn_resnet50_ade", "icnet_resnet50_citys", "fastscnn_citys", "hrnet_w48_s"])
@pytest.mark.parametrize("size", [(300, 200), (160, 240)])
def test_segmentation_networks_see_images_as_gluoncv_shows_them(
    engine: None, name: str, size: tuple[int, int], tmp_path: Path
) -> None:
    load_gluoncv()
    from gluoncv.data.segbase import SegmentationDataset

    family = family_of(name)
    assert family is not None and family.preprocess is not None
    _, side, _ = family.input_shape
    photograph = np.ascontiguousarray(next(iter(photographs().read([3]))).image[: size[0], : size[1]])
    validated = SegmentationDataset(str(tmp_path), "val", "val", None, crop_size=side)
    image, _ = validated._val_sync_transform(Image.fromarray(photograph), Image.new("L", size[::-1]))
    expected = (image.asnumpy() / 255 - family.preprocess.mean) / family.preprocess.std
    shown = apply(family.preprocess, photograph, "it", family.input_shape)
    np.testing.assert_allclose(shown, expected.transpose(2, 0, 1), atol=1e-5)
