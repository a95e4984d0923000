"""Whole networks as ONNX files: in ONNX Runtime they compute what they do in MXNet."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.bundle.export import export_onnx
from quantkit.data.batches import batches
from quantkit.data.sources import load_data
from quantkit.errors import QuantkitError
from quantkit.models.card import cards
from quantkit.models.load import load_model
from quantkit.models.model import Model
from tests.requirements import package

onnxruntime = package("onnxruntime")
pytestmark = pytest.mark.usefixtures("engine")

# The others read any size.
FIXED_SIZE = ("densenet121", "inceptionv3", "squeezenet1.0", "squeezenet1.1")

# They have the same operators as smaller ones.
LARGER = (
    "alexnet", "cifar_resnet56_v1", "cifar_resnet56_v2", "cifar_resnet110_v1", "cifar_resnet110_v2", "mobilenet0.5",
    "mobilenet0.75", "mobilenet1.0", "resnet34_v1", "resnet34_v1b", "resnet34_v2", "resnet101_v1", "resnet101_v1b",
    "resnet101_v2", "resnet152_v1", "resnet152_v1b", "resnet152_v2", "vgg16",
)  # fmt: skip
# Boxes of detectors are compared in tests/diagnosis/parity/test_detectors.py.
NAMES = [
    card.name for card in cards() if card.name not in LARGER and len(card.input_shape) == 3 and card.task != "detection"
]

REAL = {
    "cifar_resnet20_v1": 32, "cifar_resnet20_v2": 32, "squeezenet1.0": 224, "mobilenet0.25_relu6": 224,
    "mobilenetv2_1.0": 224,
}  # fmt: skip


def difference(model: Model, data: np.ndarray, folder: Path) -> float:
    """Of ONNX Runtime from MXNet, as a share of the largest output."""
    export_onnx(model, folder / "net.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / "net.onnx"), options, providers=["CPUExecutionProvider"])
    (output,) = session.run(None, {"data": data})
    (expected,) = run(model.graph, {"data": data})
    assert output.shape == expected.shape
    return float(np.abs(output - expected).max() / np.abs(expected).max())


def rounding(model: Model, data: np.ndarray) -> float:
    """What rounding may change by the numeric check of fusion: 8 times the effect of a millionth of the input."""
    signs = np.random.default_rng(0).choice(np.array([-1, 1], np.float32), data.shape)
    expected, noisy = (run(model.graph, {"data": each})[0] for each in (data, data * (1 + np.float32(2**-20) * signs)))
    return 8 * float(np.abs(noisy - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("name", NAMES)
def test_every_card_computes_the_same(name: str, tmp_path: Path) -> None:
    own_size = name in FIXED_SIZE or "resnet20" in name or name == "digits_fcn"
    model = load_model(name, weights="random", input_shape=None if own_size else (3, 64, 64), quiet=True)
    data = np.random.default_rng(0).normal(size=(2, *model.input_shape)).astype(np.float32)
    assert difference(model, data, tmp_path) <= max(1e-5, rounding(model, data))


@pytest.mark.parametrize("name", REAL)
def test_trained_networks_compute_the_same(name: str, real_data: Path, tmp_path: Path) -> None:
    model = load_model(real_data / "weights" / name, input_shape=(3, REAL[name], REAL[name]), quiet=True)
    data = np.random.default_rng(0).normal(size=(2, *model.input_shape)).astype(np.float32)
    assert difference(model, data, tmp_path) <= 1e-5


def test_a_network_that_ships_agrees_on_real_images(tmp_path: Path) -> None:
    model = load_model("digits_resnet20_v2")
    batch = next(batches(load_data("digits:test"), model.preprocess, model.input_shape, 8))
    assert difference(model, batch.data, tmp_path) <= 1e-5


def test_the_file_says_where_it_is_from(tmp_path: Path) -> None:
    import onnx

    model = load_model("digits_resnet20_v1")
    export_onnx(model, tmp_path / "net.onnx", opset=17)
    written = onnx.load(tmp_path / "net.onnx")
    told = {entry.key: entry.value for entry in written.metadata_props}
    assert told["network"] == "digits_resnet20_v1"
    assert told["weights_sha256"] == model.source.sha256
    assert tuple(json.loads(told["preprocess"])["mean"]) == model.preprocess.mean
    assert json.loads(told["labels"]) == list(model.labels)
    assert written.opset_import[0].version == 17


def test_nothing_is_left_where_the_file_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(QuantkitError, match="cannot write"):
        export_onnx(load_model("digits_resnet20_v1"), tmp_path / "no" / "net.onnx")
    assert list(tmp_path.iterdir()) == []
