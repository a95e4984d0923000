"""ONNX files as models: quantkit's own read back, and what they say of themselves."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.bundle.export import export_onnx
from quantkit.errors import ModelError
from quantkit.files.files import sha256_of
from quantkit.fusion.fuse import fuse
from quantkit.fusion.rules.drop_identity import DROP_IDENTITY
from quantkit.models.card import cards
from quantkit.models.load import load_model
from tests.requirements import package

onnx = package("onnx")
pytestmark = pytest.mark.usefixtures("engine")

# They have the same operators as smaller ones.
LARGER = ("resnet34", "resnet101", "resnet152", "cifar_resnet56", "cifar_resnet110", "vgg16", "alexnet", "mobilenet0.")
NAMES = [
    card.name
    for card in cards()
    if len(card.input_shape) == 3
    # Detectors have no ONNX form yet.
    and card.task != "detection"
    and (not card.name.startswith(LARGER) or card.name == "mobilenet0.25_relu6")
]
FIXED_SIZE = ("densenet121", "inceptionv3", "squeezenet1.0", "squeezenet1.1")


@pytest.mark.parametrize("name", NAMES)
def test_every_card_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    own_size = name in FIXED_SIZE or "resnet20" in name or name == "digits_fcn"
    model = load_model(name, weights="random", input_shape=None if own_size else (3, 64, 64), quiet=True)
    export_onnx(model, tmp_path / "net.onnx")
    found = load_model(tmp_path / "net.onnx")
    data = np.random.default_rng(0).normal(size=(2, *model.input_shape)).astype(np.float32)
    np.testing.assert_array_equal(run(found.graph, {"data": data})[0], run(model.graph, {"data": data})[0])
    assert (found.input_shape, found.preprocess, found.labels) == (model.input_shape, model.preprocess, model.labels)
    assert found.task == (None if model.task == "classification" else model.task)
    assert found.source.weights == "random"
    # What does nothing is left out on the way to ONNX or back.
    rules = [
        Counter(
            applied.rule for applied in fuse(each.graph, each.input_shape).applied if applied.rule != DROP_IDENTITY.name
        )
        for each in (model, found)
    ]
    assert rules[0] == rules[1]


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    export_onnx(load_model("digits_resnet20_v1"), tmp_path / "digits.onnx", opset=21)
    return tmp_path / "digits.onnx"


def test_where_it_is_from(digits: Path) -> None:
    model = load_model(str(digits))
    assert model.name == "digits"
    assert (model.source.weights, model.source.location, model.source.network) == ("file", "digits.onnx", "digits")
    assert model.source.sha256 == sha256_of(digits)


def test_another_size_is_preprocessed_in_proportion(digits: Path) -> None:
    usual = load_model(digits)
    larger = load_model(digits, input_shape=(3, 64, 64))
    assert larger.input_shape == (3, 64, 64)
    assert usual.preprocess is not None
    assert larger.preprocess is not None
    assert (usual.preprocess.crop, larger.preprocess.crop) == (32, 64)


def test_the_corners_of_boxes_are_kept(tmp_path: Path) -> None:
    for corners in ("edges", "pixels"):
        model = replace(load_model("digits_resnet20_v1"), task=None, box_corners=corners)  # type: ignore[arg-type]
        export_onnx(model, tmp_path / "net.onnx")
        assert load_model(tmp_path / "net.onnx").box_corners == corners
        told = {entry.key: entry.value for entry in onnx.load(tmp_path / "net.onnx").metadata_props}
        assert told.get("box_corners") == (None if corners == "edges" else corners)
        assert load_model(tmp_path / "net.onnx", box_corners="edges").box_corners == "edges"


def test_detectors_that_do_not_say_have_the_corners_of_their_family(digits: Path) -> None:
    """As files were before metadata knew it."""
    for network, corners in (("ssd_512_resnet50_v1_voc", "pixels"), ("mine", "edges")):
        assert load_model(with_metadata(digits, task="detection", network=network)).box_corners == corners
    said = with_metadata(digits, network="ssd_512_resnet50_v1_voc", box_corners="edges")
    assert load_model(said).box_corners == "edges"


def with_metadata(path: Path, **told: str) -> Path:
    model = onnx.load(path)
    kept = {entry.key: entry.value for entry in model.metadata_props}
    onnx.helper.set_model_props(model, {**kept, **told})
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(
    "told",
    [
        {"preprocess": "{"},
        {"preprocess": "[]"},
        {"preprocess": '{"mean": [0, 0, 0]}'},
        {"preprocess": '{"mean": [0,0], "std": [1,1,1], "resize": null, "crop": 32, "scale": 1, "rotate180": false}'},
        {"preprocess": '{"mean": [0,0,0], "std": [1,0,1], "resize": null, "crop": 32, "scale": 1, "rotate180": false}'},
        {"preprocess": '{"mean": [0,0,0], "std": [1,NaN,1], "resize": 4, "crop": 32, "scale": 1, "rotate180": false}'},
        {"preprocess": '{"mean": [0,0,0], "std": [1,1,1], "resize": 0, "crop": 32, "scale": 1, "rotate180": false}'},
        {"preprocess": '{"mean": [0,0,0], "std": [1,1,1], "resize": 4, "crop": 0, "scale": 1, "rotate180": false}'},
        {"preprocess": '{"mean": [0,0,0], "std": [1,1,1], "resize": 1e999, "crop": 3, "scale": 1, "rotate180": false}'},
        {"preprocess": f'{{"mean": [0,0,0], "std": [1,1,1], "resize": 1{"0" * 400}, "crop": 3, "scale": 1}}'},
        {"preprocess": f'{{"mean": [0,0,1{"0" * 400}], "std": [1,1,1], "resize": null, "crop": 3, "scale": 1}}'},
        {"preprocess": "[" * 100_000},
        {"labels": '"cat"'},
        {"labels": "[1, 2]"},
        {"labels": '["\\ud800"]'},
        {"task": "cooking"},
        {"box_corners": "cooking"},
    ],
)
def test_damaged_metadata(told: dict[str, str], digits: Path) -> None:
    path = with_metadata(digits, **told)
    for shape in (None, (3, 64, 64)):
        with pytest.raises(ModelError, match="its metadata entry"):
            load_model(path, input_shape=shape)


def test_files_of_others_have_no_preprocessing(digits: Path) -> None:
    model = load_model(with_metadata(digits, preprocess="", labels=""))
    assert (model.preprocess, model.labels) == (None, ())


def test_other_weights_are_refused(digits: Path) -> None:
    for options in ({"weights": "random"}, {"weights": "w.params"}, {"params": {}}):
        with pytest.raises(ModelError, match="holds its own weights"):
            load_model(digits, **options)
