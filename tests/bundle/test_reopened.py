"""A bundle's network, to be worked on again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from quantkit.api import quantize
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.bundle.read import read_bundle
from quantkit.bundle.reopened import reopened
from quantkit.bundle.write import write_float_bundle
from quantkit.errors import UserError
from quantkit.models.model import Model
from quantkit.quantization.config import QuantizationConfig
from tests.training.conftest import coloured, tiny


@pytest.fixture(scope="module")
def network(int8_engine: None) -> QuantizedModel:
    return quantize(tiny(), coloured(12), QuantizationConfig(num_samples=12, preset="fast"))


def test_it_is_saved_again_with_the_same_bytes(network: QuantizedModel, tmp_path: Path) -> None:
    first = replace(network, training={"epochs": [{"loss": 0.1}], "train": "größer"}).save(tmp_path / "first")
    again = replace(
        reopened(read_bundle(first), tiny(), coloured(12)), agreement=network.agreement, drift=network.drift
    ).save(tmp_path / "again")
    files = {path.name: path.read_bytes() for path in first.iterdir()}
    assert {path.name: path.read_bytes() for path in again.iterdir()} == files


def test_another_network_or_an_fp32_bundle_is_refused(network: QuantizedModel, tmp_path: Path) -> None:
    bundle = read_bundle(network.save(tmp_path / "int8"))
    graph = tiny().graph
    params = {name: value + np.float32(name == "first_weight") for name, value in graph.params.items()}
    other: Model = replace(tiny(), graph=replace(graph, params=params))
    with pytest.raises(UserError, match="was not made from 'tiny' with these weights"):
        reopened(bundle, other, coloured(12))
    fused = write_float_bundle(network.source, tmp_path / "fp32")
    with pytest.raises(UserError, match="is an FP32 bundle; give an INT8 one"):
        reopened(read_bundle(fused), tiny(), coloured(12))
