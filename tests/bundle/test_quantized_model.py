"""The stages in a row: what each does with the sample data that they share."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import quantkit
from quantkit import QuantizationConfig
from quantkit.bundle import read_bundle
from quantkit.calibration.table import CalibrationTable
from quantkit.data import builtin, preparation
from quantkit.data import folder as folders
from quantkit.data.default_samples import DefaultSamplesWarning
from quantkit.data.samples import Samples, take
from quantkit.errors import UserError
from quantkit.formats.mxnet import nnvm
from quantkit.models.dataset import dataset
from quantkit.quantization.calibrate import shipped_recipe

NETWORK = "digits_resnet20_v1"


@pytest.fixture(scope="module")
def digits() -> Samples:
    return take(quantkit.load_data("digits:train"), 20)


def assert_same(actual: quantkit.QuantizedModel, expected: quantkit.QuantizedModel) -> None:
    assert nnvm.sha256_of(actual.graph) == nnvm.sha256_of(expected.graph)
    assert vars(actual.plan) == vars(expected.plan)
    assert actual.agreement == expected.agreement


def test_each_image_is_decoded_once(
    int8_engine: None, digits: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index, sample in enumerate(digits):
        Image.fromarray(sample.image).save(tmp_path / f"{index:02}.png")
    decoded: Counter[str] = Counter()
    decode = folders.decode

    def counted(file: Path, name: str) -> np.ndarray[Any, Any]:
        decoded[name] += 1
        return decode(file, name)

    monkeypatch.setattr(folders, "decode", counted)
    quantized = quantkit.quantize(NETWORK, tmp_path, QuantizationConfig(num_samples=12))
    assert quantized.algorithms.needs_images
    assert len(decoded) == quantized.table.samples == 12
    assert set(decoded.values()) == {1}


def test_each_default_sample_is_cut_and_preprocessed_once(
    int8_engine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: Counter[str] = Counter()
    preprocessed: Counter[str] = Counter()
    decode, apply = builtin.decode, preparation.apply

    def counted_decode(file: Path, name: str) -> np.ndarray[Any, Any]:
        decoded[name] += 1
        return decode(file, name)

    def counted_apply(how: Any, image: np.ndarray[Any, Any], where: str, *shape: Any) -> np.ndarray[Any, Any]:
        preprocessed[where] += 1
        return apply(how, image, where, *shape)

    monkeypatch.setattr(builtin, "decode", counted_decode)
    monkeypatch.setattr(preparation, "apply", counted_apply)
    builtin._photograph.cache_clear()
    quantized = quantkit.quantize(NETWORK, "builtin", QuantizationConfig(num_samples=9))
    quantized.save(tmp_path / "bundle")
    assert quantized.algorithms.needs_images
    assert len(decoded) == 7 and len(preprocessed) == 9
    assert {*decoded.values(), *preprocessed.values()} == {1}


def test_a_generator_gives_what_a_list_gives(int8_engine: None, digits: Samples) -> None:
    batches = [np.stack([sample.image]) for sample in digits]

    def once() -> Iterator[np.ndarray[Any, Any]]:
        yield from batches

    config = QuantizationConfig(num_samples=10)
    assert_same(quantkit.quantize(NETWORK, once(), config), quantkit.quantize(NETWORK, batches, config))


def test_a_list_may_be_shorter_than_the_defaults(int8_engine: None, digits: Samples) -> None:
    three = [np.stack([sample.image for sample in take(digits, 3)])]
    assert quantkit.quantize(NETWORK, three, QuantizationConfig(num_samples=3)).table.samples == 3
    agreement = quantkit.quantize(NETWORK, three).agreement
    assert agreement is not None and agreement.images == 3


def test_a_dataset_serves_every_stage(int8_engine: None, digits: Samples) -> None:
    model = quantkit.load_model(NETWORK)
    data = dataset(model, digits)
    assert dataset(model, data) is data
    fused = quantkit.fuse(model, data)
    table = quantkit.calibrate(fused, data, 8)
    adjusted = quantkit.apply_algorithms(fused, table, quantkit.plan(fused, table), data)
    assert table.data_sha256 == data.subset(8).sha256
    lowered = quantkit.lower(fused, table, adjusted)
    assert lowered.agreement is None
    expected = quantkit.quantize(model, digits, QuantizationConfig(num_samples=8))
    assert_same(quantkit.measure_agreement(lowered, data), expected)


def test_more_samples_of_calibration_have_signals_of_inputs_than_of_outputs(int8_engine: None) -> None:
    config = QuantizationConfig(num_samples=130, preset="none")
    drift = quantkit.quantize(NETWORK, "digits:train", config).drift
    assert drift is not None
    counts = {name: len(values) for name, values in drift.signals.items()}
    assert {count for name, count in counts.items() if name.startswith("input")} == {130}
    assert {count for name, count in counts.items() if name.startswith("output")} == {100}


def test_algorithms_complete_the_network_and_lowering_runs_nothing(
    int8_engine: None, digits: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused = quantkit.fuse(quantkit.load_model(NETWORK), digits)
    table = quantkit.calibrate(fused, digits, 8)
    adjusted = quantkit.apply_algorithms(fused, table, quantkit.plan(fused, table), digits, "none")
    sums = {layer.node.output for layer in adjusted.network.int8_layers if layer.addition is not None}
    assert sums and adjusted.network.plan.pre_add_ranges.keys() == sums
    for module in ("calls", "execute", "symbols"):
        engine = f"quantkit.backends.mxnet.{module}.load_mxnet"
        monkeypatch.setattr(engine, lambda: pytest.fail("the engine was asked"))
    lowered = quantkit.lower(fused, table, adjusted)
    assert lowered.network is adjusted.network
    assert any(node.op == "_sg_mkldnn_conv" and "quantized" in node.attrs for node in lowered.graph.nodes)
    monkeypatch.undo()
    bundle = read_bundle(lowered.save(tmp_path / "bundle"))
    assert bundle.manifest.agreement is None
    assert bundle.network.plan.pre_add_ranges == adjusted.network.plan.pre_add_ranges


def test_a_dataset_of_another_network_is_refused(engine: None) -> None:
    model = quantkit.load_model(NETWORK)
    other = quantkit.CalibrationDataset("digits:train", None, (3, 32, 32))
    with pytest.raises(UserError, match=f"was preprocessed for another network than '{NETWORK}'"):
        quantkit.fuse(model, other)


def test_photographs_that_stand_for_other_images_set_no_ranges(engine: None, digits: Samples) -> None:
    source = quantkit.fuse(quantkit.load_model(NETWORK), digits)

    def with_channel_shift(table: CalibrationTable, samples: Any) -> bool:
        return quantkit.apply_algorithms(
            source, table, quantkit.plan(source, table), samples, "fast"
        ).algorithms.channel_shift

    of_digits, of_photographs = (quantkit.calibrate(source, each, 4) for each in (digits, "builtin"))
    assert not with_channel_shift(of_digits, "builtin")
    assert with_channel_shift(of_digits, digits)
    assert with_channel_shift(of_photographs, "builtin")


def test_a_table_that_ships_takes_the_place_of_calibration(int8_engine: None) -> None:
    config = QuantizationConfig(preset="none")
    quantized = quantkit.quantize(NETWORK, config=config)
    recipe = shipped_recipe(quantized.source)
    assert recipe is not None and quantized.table == recipe.table
    assert quantized.source.check.samples > 0
    assert quantkit.quantize(NETWORK, "builtin", replace(config, num_samples=2)).table.samples == 2
    given = replace(recipe.table, samples=7)
    assert quantkit.quantize(NETWORK, config=config, table=given).table is given


def test_small_inputs_and_default_samples_do_not_go_together(engine: None, digits: Samples) -> None:
    source = quantkit.fuse(quantkit.load_model(NETWORK), digits)
    with pytest.warns(DefaultSamplesWarning, match="32x32 pixels") as told:
        quantkit.calibrate(source, "builtin", 2)
    assert [each.filename for each in told if each.category is DefaultSamplesWarning] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error", DefaultSamplesWarning)
        quantkit.calibrate(source, digits, 2)
        # Of random weights nobody expects accuracy.
        quantkit.calibrate(quantkit.fuse(quantkit.load_model(NETWORK, weights="random")), "builtin", 2)
