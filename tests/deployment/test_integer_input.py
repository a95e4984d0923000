"""Pixels that become the network's integers at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quantkit
from quantkit.bundle import Bundle, read_bundle
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.data.preprocess import Preprocess, apply
from quantkit.deployment.inputs import InputReader
from quantkit.deployment.instances import Instances
from quantkit.deployment.network import open_network
from quantkit.deployment.predictor import Predictor
from quantkit.errors import DataError
from quantkit.lowering.input_quantizer import InputQuantizer
from tests.requirements import requires


@pytest.fixture(scope="session")
def int8(digits_int8: QuantizedModel, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return read_bundle(digits_int8.save(tmp_path_factory.mktemp("integers") / "digits"))


@pytest.fixture(scope="session")
def pixels() -> list[np.ndarray]:
    return [sample.image for sample in list(quantkit.load_data("digits:test"))[:21]]


@pytest.fixture(scope="session")
def values(int8: Bundle, pixels: list[np.ndarray]) -> np.ndarray:
    """What the network reads of the pixels."""
    assert int8.preprocess is not None
    return np.stack([apply(int8.preprocess, each, input_shape=int8.manifest.input.shape) for each in pixels])


def given_types(predictor: Predictor, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The types and numbers of the samples that its network is handed from now on."""
    found: list[tuple[str, int]] = []
    outputs = predictor._runner.outputs

    def noted(batches: Any, *more: Any) -> Any:
        listed = list(batches)
        found.extend((batch.dtype.name, len(batch)) for batch in listed)
        return outputs(listed, *more)

    monkeypatch.setattr(predictor._runner, "outputs", noted)
    return found


def test_pixels_have_the_outputs_of_their_values(
    int8: Bundle, pixels: list[np.ndarray], values: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = Predictor(int8)
    types = given_types(predictor, monkeypatch)
    np.testing.assert_array_equal(predictor.predict(pixels), predictor.predict(values))
    np.testing.assert_array_equal(predictor.predict(np.stack(pixels)), predictor.predict(values))
    pixel_batches, value_batches = [("int8", 16), ("int8", 5)], [("float32", 16), ("float32", 5)]
    assert types == [*pixel_batches, *value_batches, *pixel_batches, *value_batches]


@pytest.fixture
def mixed(pixels: list[np.ndarray], values: np.ndarray) -> list[np.ndarray]:
    return [pixel if index % 3 else value for index, (pixel, value) in enumerate(zip(pixels, values))]


def test_pixels_and_values_may_take_turns(
    int8: Bundle, mixed: list[np.ndarray], values: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = Predictor(int8)
    types = given_types(predictor, monkeypatch)
    expected = predictor.predict(values)
    np.testing.assert_array_equal(predictor.predict(mixed), expected)
    assert types[-2:] == [("int8", 16), ("int8", 5)]


def test_instances_read_integers_alone(
    int8: Bundle, pixels: list[np.ndarray], values: np.ndarray, mixed: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, quantized = Predictor(int8).predict(values), []
    quantize = InputQuantizer.quantize

    def noted(quantizer: InputQuantizer, array: np.ndarray) -> np.ndarray:
        quantized.append(array.size // values[0].size)
        return quantize(quantizer, array)

    # Two at a time, and sometimes one that is left.
    monkeypatch.setattr("quantkit.deployment.instance._CACHED", 2 * values[0].size)
    with Predictor(int8, instances=Instances(1, batch=4)) as predictor:
        assert predictor._runner.quantizer == Predictor(int8)._runner.quantizer is not None
        predictor.predict(pixels[:1])
        monkeypatch.setattr(InputQuantizer, "quantize", noted)
        for given, in_this_process in ((pixels, 0), (values, 21), (mixed, 7)):
            quantized.clear()
            np.testing.assert_array_equal(predictor.predict(given), expected)
            assert sum(quantized) == in_this_process
        np.testing.assert_array_equal(asyncio.run(predictor.predict_async(values)), expected)


def test_networks_that_read_no_pixels_have_none(bundle: Bundle, int8: Bundle) -> None:
    assert open_network(bundle, "mxnet").quantizer is None
    assert open_network(int8, "mxnet").quantizer is not None
    assert open_network(replace(int8, preprocess=None), "mxnet").quantizer is None


@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_other_engines_read_values(digits_onnx: Path, name: str) -> None:
    requires(name)
    assert open_network(read_bundle(digits_onnx), name).quantizer is None


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (
            np.zeros((40, 40), np.uint8),
            r"image 0 is uint8 of shape \(40, 40\); give uint8 of shape \(height, width, 3\)",
        ),
        (np.zeros((40, 40, 4), np.uint8), "image 0 is uint8"),
        (np.zeros((0, 40, 3), np.uint8), "image 0 is uint8"),
    ],
)
def test_what_is_no_image_is_refused(int8: Bundle, image: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Predictor(int8).predict([image])


def reader(preprocess: Preprocess, quantizer: InputQuantizer, shape: tuple[int, ...] = (3, 8, 8)) -> InputReader:
    return InputReader(shape, preprocess, quantizer=quantizer)


@pytest.mark.parametrize("quantizer", [InputQuantizer(50.0, "int8"), InputQuantizer(255.5 / 3, "uint8")], ids=repr)
@pytest.mark.parametrize(
    "preprocess",
    [
        Preprocess(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
        Preprocess(mean=(1, -2, 0), std=(3, 0.01, 1), scale=7, rotate180=True),
        Preprocess(fit="letterbox"),
    ],
    ids=["imagenet", "turned", "letterbox"],
)
def test_every_level_of_every_channel_becomes_the_integer_of_its_value(
    preprocess: Preprocess, quantizer: InputQuantizer
) -> None:
    shape = (3, 16, 16)
    image = np.stack([np.random.default_rng(channel).permutation(256).reshape(16, 16) for channel in range(3)], axis=-1)
    image = image.astype(np.uint8)
    (batch,) = reader(preprocess, quantizer, shape).batches([image])
    np.testing.assert_array_equal(batch[0], quantizer.quantize(apply(preprocess, image, input_shape=shape)))
    assert batch.dtype == quantizer.dtype and batch.flags.c_contiguous


def test_the_integers_of_levels_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    quantized: list[tuple[int, ...]] = []
    quantize = InputQuantizer.quantize

    def noted(quantizer: InputQuantizer, array: np.ndarray) -> np.ndarray:
        quantized.append(array.shape)
        return quantize(quantizer, array)

    monkeypatch.setattr(InputQuantizer, "quantize", noted)
    read, image = reader(Preprocess(), InputQuantizer(50.0, "int8")), np.full((8, 8, 3), 9, np.uint8)
    for _ in range(2):
        list(read.batches([image]))
        list(read.with_samples([image]))
    assert quantized == [(3, 1, 256)]


def test_values_that_are_not_finite_are_refused_as_ever() -> None:
    overflowing = Preprocess(scale=1e-30, std=(1e-30, 1, 1))
    with pytest.raises(DataError, match="image 0 holds NaN or infinite values"):
        list(reader(overflowing, InputQuantizer(1.0, "int8")).batches([np.full((8, 8, 3), 9, np.uint8)]))


def test_reduced_files_become_integers_too(int8: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    file = tmp_path / "large.png"
    pixels = np.random.default_rng(0).integers(0, 256, (400, 400, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(file)
    predictor = Predictor(int8, reduced_decoding=True)
    types = given_types(predictor, monkeypatch)
    # Only JPEG files are decoded at a fraction of their size.
    np.testing.assert_array_equal(predictor.predict(str(file)), Predictor(int8).predict(pixels))
    assert types == [("int8", 1)]
