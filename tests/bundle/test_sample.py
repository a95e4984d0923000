"""Which sample a bundle stores: nothing of the user's, unless asked for."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quantkit
from quantkit.bundle import read_bundle, verify_bundle, write_float_bundle
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.data.builtin import photographs
from quantkit.data.preprocess import apply
from quantkit.fusion.fused_model import FusedModel
from quantkit.models.load import load_model
from quantkit.models.model import Model

pytestmark = pytest.mark.usefixtures("int8_engine")


@pytest.fixture(scope="module")
def own() -> np.ndarray:
    """Pixels of the user's own."""
    return np.random.default_rng(3).integers(0, 256, (6, 40, 36, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def digits() -> Model:
    return load_model("digits_resnet20_v1")


def quantized(source: FusedModel, samples: Any) -> QuantizedModel:
    table = quantkit.calibrate(source, samples, 4)
    plan = quantkit.plan(source, table)
    return quantkit.lower(source, table, quantkit.apply_algorithms(source, table, plan, samples, "none"))


@pytest.fixture(scope="module")
def images(digits: Model, own: np.ndarray) -> QuantizedModel:
    """Quantized with the user's images."""
    return quantized(quantkit.fuse(digits, own), own)


@pytest.fixture(scope="module")
def arrays(digits: Model, own: np.ndarray) -> QuantizedModel:
    """Quantized with the user's preprocessed arrays, where nothing is known of the preprocessing."""
    data = np.stack([apply(digits.preprocess, image) for image in own]) * 3
    return quantized(quantkit.fuse(replace(digits, preprocess=None), data), data)


def contents(bundle: Path) -> Iterator[bytes]:
    """The files of a bundle, and what is in its archives."""
    for path in bundle.iterdir():
        yield path.read_bytes()
        if path.suffix == ".npz":
            with zipfile.ZipFile(path) as archive:
                yield from (archive.read(name) for name in archive.namelist())


def holds(bundle: Path, array: np.ndarray) -> bool:
    return any(array.tobytes() in content for content in contents(bundle))


def test_of_the_users_images_nothing_is_stored(images: QuantizedModel, own: np.ndarray, tmp_path: Path) -> None:
    bundle = images.save(tmp_path / "bundle")
    preprocess, stored = images.source.model.preprocess, read_bundle(bundle)
    np.testing.assert_array_equal(stored.sample.input[0], apply(preprocess, next(iter(photographs())).image))
    assert stored.manifest.sample == "built-in"
    assert not any(holds(bundle, apply(preprocess, image)) for image in own)
    assert verify_bundle(bundle).ok


def test_of_the_users_arrays_nothing_is_stored(arrays: QuantizedModel, tmp_path: Path) -> None:
    bundle = arrays.save(tmp_path / "bundle")
    stored, bounds = read_bundle(bundle), arrays.table.ranges["data"]
    assert stored.manifest.sample == "generated"
    assert not holds(bundle, arrays.source.sample)
    # All integers of the input occur, so that the check is worth something.
    noise = stored.sample.input
    assert bounds.low <= noise.min() < noise.max() <= bounds.high
    assert noise.max() - noise.min() > 0.99 * (bounds.high - bounds.low)
    assert verify_bundle(bundle).ok


@pytest.mark.parametrize("form", ["images", "arrays"])
def test_ones_own_is_kept_if_asked_for(form: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    network: QuantizedModel = request.getfixturevalue(form)
    bundle = network.save(tmp_path / "bundle", keep_sample=True)
    stored = read_bundle(bundle)
    np.testing.assert_array_equal(stored.sample.input, network.source.sample)
    assert stored.manifest.sample == "own"
    assert verify_bundle(bundle).ok


@pytest.mark.parametrize(("keep", "origin"), [(False, "built-in"), (True, "own")])
def test_fp32_bundles(images: QuantizedModel, tmp_path: Path, keep: bool, origin: str) -> None:
    bundle = write_float_bundle(images.source, tmp_path / "bundle", keep_sample=keep)
    assert read_bundle(bundle).manifest.sample == origin
    assert holds(bundle, images.source.sample) == keep
    assert verify_bundle(bundle).ok


def test_a_network_whose_images_come_in_its_size_gets_a_scaled_photograph(
    digits: Model, own: np.ndarray, tmp_path: Path
) -> None:
    preprocess = replace(digits.preprocess, resize=None, crop=None)
    source = quantkit.fuse(replace(digits, preprocess=preprocess), np.ascontiguousarray(own[:, :32, :32]))
    stored = read_bundle(write_float_bundle(source, tmp_path / "bundle"))
    (photograph,) = photographs().read((0,))
    expected = apply(replace(preprocess, fit="stretch"), photograph.image, input_shape=digits.input_shape)
    assert stored.manifest.sample == "built-in"
    np.testing.assert_array_equal(stored.sample.input[0], expected)


@pytest.mark.parametrize("samples", ["digits:train", "builtin"])
def test_built_in_images_are_stored_as_they_always_were(digits: Model, tmp_path: Path, samples: str) -> None:
    """The manifest need not say more than that the network was calibrated with them."""
    network = quantized(quantkit.fuse(digits, samples), samples)
    bundle = network.save(tmp_path / "bundle")
    np.testing.assert_array_equal(read_bundle(bundle).sample.input, network.source.sample)
    assert "sample" not in json.loads((bundle / "manifest.json").read_text())
    other = replace(network, table=replace(network.table, data_name="photos"))
    assert read_bundle(other.save(tmp_path / "other")).manifest.sample == "built-in"


def test_verify_tells_what_the_sample_is(images: QuantizedModel, arrays: QuantizedModel, tmp_path: Path) -> None:
    def said(network: QuantizedModel, name: str, keep: bool) -> str:
        return verify_bundle(network.save(tmp_path / name, keep_sample=keep)).checks[-1].why

    assert said(images, "a", False).startswith("a built-in image, stored by")
    assert said(arrays, "b", False).startswith("noise, stored by")
    assert said(arrays, "c", True).startswith("one of the samples it was made with, stored by")


def test_the_same_network_gives_the_same_noise(arrays: QuantizedModel, tmp_path: Path) -> None:
    first, second = (arrays.save(tmp_path / name) for name in ("first", "second"))
    assert (first / "sample.npz").read_bytes() == (second / "sample.npz").read_bytes()
