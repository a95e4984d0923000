"""Analysing bundles: the network that ships, and references that do not fit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import quantkit
from quantkit.bundle import read_bundle
from quantkit.bundle.write import write_float_bundle
from quantkit.data.sources import load_data
from quantkit.diagnosis.layers import analyze as analyze_module
from quantkit.diagnosis.layers.analysis import Analysis
from quantkit.diagnosis.layers.analyze import analyze
from quantkit.errors import DataError, ModelError, UserError
from quantkit.evaluation.compare import compare
from quantkit.fusion.fused_model import FusedModel
from quantkit.models.load import load_model
from quantkit.quantization.ptq_config import PTQConfig
from tests.sharding import InParts


def test_the_network_that_ships(analysis: Analysis, digits_bundle: Path, digits_fused: FusedModel) -> None:
    assert analysis.images == 12
    assert analysis.layers[-1].name == "digits_dense0_fwd"
    assert analysis.layers[-1].output is None
    for layer in analysis.layers:
        assert 20 < layer.own.sqnr < 60
        assert layer.accumulated.sqnr < layer.own.sqnr + 3
        if layer.weights is not None:
            # What weights and tensors add are independent of each other.
            both = -10 * np.log10(10 ** (-layer.weights.sqnr / 10) + 10 ** (-layer.tensors.sqnr / 10))
            assert layer.own.sqnr == pytest.approx(both, abs=1)
    assert analysis.worst[0].own.sqnr == min(layer.own.sqnr for layer in analysis.layers)
    bundle = read_bundle(digits_bundle)
    first = load_data("digits:test")
    engine = compare(digits_fused, bundle.graph, quantkit.load_data(_pixels(first, 12)))
    assert analysis.agreement.cosine == pytest.approx(engine.cosine, abs=2e-3)


@pytest.mark.long
@pytest.mark.parametrize("name", ["digits", "shifted", "digits_ssd"])
def test_samples_in_parts_are_analysed_as_all_at_once(
    int8_engine: None, digits_bundle: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analyze_module, "_LARGEST_BATCH", 2)
    bundle, data = digits_bundle, "digits:test"
    if name != "digits":
        network, data = ("digits_resnet20_v2", data) if name == "shifted" else (name, "scenes:test")
        config = quantkit.QuantizationConfig(num_samples=8, preset="none" if name == "digits_ssd" else "fast")
        bundle = quantkit.quantize(network, data.replace("test", "train"), config).save(tmp_path / name)
    whole = analyze(bundle, data, num_samples=7)
    assert analyze(bundle, data, num_samples=7, executor=InParts(4)) == whole
    assert any(layer.shifted for layer in whole.layers) == (name == "shifted")
    assert bool(whole.agreement.scores) == (name == "digits_ssd")


def _pixels(samples: object, count: int) -> np.ndarray:
    from quantkit.data.samples import Samples, take

    assert isinstance(samples, Samples)
    return np.stack([sample.image for sample in take(samples, count)])


def test_images_that_were_calibrated_with_are_known_by_their_content(digits_bundle: Path, analysis: Analysis) -> None:
    same = analyze(digits_bundle, "digits:train", num_samples=12)
    assert same.calibration.repeated == 8
    assert any("8 of the 12 images were calibrated with" in text for text in same.findings)
    assert analysis.calibration.repeated is None


def test_each_image_is_decoded_once(
    digits_bundle: Path, analysis: Analysis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from PIL import Image

    from quantkit.data import folder

    for number, image in enumerate(_pixels(load_data("digits:test"), 12)):
        Image.fromarray(image).save(tmp_path / f"{number:02}.png")
    decoded: Counter[str] = Counter()
    decode = folder.decode

    def counted(file: Path, name: str) -> np.ndarray:
        decoded[name] += 1
        return decode(file, name)

    monkeypatch.setattr(folder, "decode", counted)
    decoded_once = analyze(digits_bundle, tmp_path)
    assert (len(decoded), set(decoded.values())) == (12, {1})
    assert decoded_once.images == 12
    assert sorted(layer.own.sqnr for layer in decoded_once.layers) == pytest.approx(
        sorted(layer.own.sqnr for layer in analysis.layers)
    )


def test_images_can_be_given_one_by_one(digits_bundle: Path, analysis: Analysis) -> None:
    pixels = _pixels(load_data("digits:test"), 12)
    one_by_one = analyze(digits_bundle, (image[None] for image in pixels))
    assert one_by_one.images == 12
    assert one_by_one.agreement == analysis.agreement


def test_pixels_that_were_not_preprocessed(digits_bundle: Path) -> None:
    pixels = _pixels(load_data("digits:test"), 4).transpose(0, 3, 1, 2).astype(np.float32)
    pixels[1] = 0
    unprocessed = analyze(digits_bundle, pixels)
    assert unprocessed.calibration.input.whole
    assert unprocessed.calibration.input.constant == 1
    assert any("whole numbers as pixels are" in text for text in unprocessed.findings)
    channels = pixels.transpose(1, 0, 2, 3).reshape(3, -1).astype(np.float64)
    np.testing.assert_allclose(unprocessed.calibration.input.mean, channels.mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(unprocessed.calibration.input.deviation, channels.std(axis=1), rtol=1e-6)


def test_another_reference_is_refused_by_its_weights(digits_bundle: Path) -> None:
    with pytest.raises(ModelError, match=r"has other weights .* --reference"):
        analyze(digits_bundle, "digits:test", "digits_resnet20_v2", 2)


def test_another_reference_is_refused_by_its_structure(digits_bundle: Path) -> None:
    model = load_model("digits_resnet20_v2")
    unknown = replace(model, source=replace(model.source, sha256=""))
    with pytest.raises(ModelError, match=r"is not the network .* --reference"):
        analyze(digits_bundle, "digits:test", unknown, 2)


def test_a_reference_without_preprocessing_has_the_bundles(digits_bundle: Path, digits_fused: FusedModel) -> None:
    assert analyze(digits_bundle, "digits:test", replace(digits_fused.model, preprocess=None), 2).images == 2


def test_a_reference_that_is_not_known_by_name(digits_bundle: Path) -> None:
    bundle = read_bundle(digits_bundle)
    source = replace(bundle.manifest.source, network="of-mine")
    mine = replace(bundle, manifest=replace(bundle.manifest, source=source))
    with pytest.raises(ModelError, match=r"'of-mine' .* cannot be loaded by its name .* --reference"):
        analyze(mine, "digits:test", num_samples=2)
    assert analyze(mine, "digits:test", "digits_resnet20_v1", 2).images == 2


def test_an_fp32_bundle_is_refused(digits_fused: FusedModel, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds an FP32 network"):
        analyze(write_float_bundle(digits_fused, tmp_path / "fp32"), "digits:test")


def test_more_images_than_there_are(digits_bundle: Path) -> None:
    pixels = _pixels(load_data("digits:test"), 2)
    assert analyze(digits_bundle, pixels).images == 2
    with pytest.raises(DataError, match="holds 2"):
        analyze(digits_bundle, pixels, num_samples=3)


def test_a_network_without_layers_in_int8_is_refused(digits_int8: quantkit.QuantizedModel, tmp_path: Path) -> None:
    fused, table = digits_int8.source, digits_int8.table
    plan = quantkit.plan(fused, table, exclude="*")
    adjusted = quantkit.apply_algorithms(fused, table, plan, "digits:train", "none")
    quantkit.lower(fused, table, adjusted).save(tmp_path / "kept")
    with pytest.raises(UserError, match=r"no layer of .*kept runs in INT8"):
        analyze(tmp_path / "kept", "digits:test", num_samples=4)


def test_tensors_that_were_scaled_are_not_compared(digits_bundle: Path) -> None:
    bundle = read_bundle(digits_bundle)
    settings = bundle.manifest.settings
    assert settings is not None
    scaled = replace(settings, algorithms=PTQConfig(equalize=True))
    with pytest.raises(UserError, match="scaled by equalization"):
        analyze(replace(bundle, manifest=replace(bundle.manifest, settings=scaled)), "digits:test", num_samples=4)
