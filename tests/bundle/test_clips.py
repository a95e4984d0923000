"""Bundles of networks of clips are the same whatever engine reads them, and are read without any."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quantkit.backends.mxnet import capabilities
from quantkit.bundle import write_float_bundle
from quantkit.bundle.read import read_bundle
from quantkit.fusion.fused_model import fuse_model
from quantkit.models.model import Model, Source
from quantkit.quantization.config import QuantizationConfig
from tests.networks import DATA, Builder

SHAPE = (3, 4, 8, 8)


@pytest.fixture
def model() -> Model:
    """Two convolutions, one of them without an activation."""
    b = Builder()
    attrs = {"kernel": (3, 3, 3), "pad": (1, 1, 1), "num_filter": 3, "no_bias": True}
    weights = [b.param(f"w{number}", b.random.normal(size=(3, 3, 3, 3, 3)) / 9) for number in range(2)]
    first = b.relu("relu", b.op("Convolution", "conv0", DATA, weights[0], **attrs))
    graph = b.graph(b.op("Convolution", "conv1", first, weights[1], **attrs))
    return Model("clips", graph, SHAPE, None, Source("clips", "given"))


@pytest.mark.usefixtures("int8_engine")
@pytest.mark.parametrize("kind", ["int8", "fp32"])
def test_a_bundle_is_read_without_an_engine(
    kind: str, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quantkit.api import quantize

    samples = np.random.default_rng(0).normal(size=(4, *SHAPE)).astype(np.float32)
    if kind == "int8":
        quantize(model, samples, QuantizationConfig(num_samples=4, preset="none")).save(tmp_path / "bundle")
    else:
        write_float_bundle(fuse_model(model, samples), tmp_path / "bundle")
    monkeypatch.setattr(capabilities, "load_mxnet", None)
    network = read_bundle(tmp_path / "bundle").network
    assert [node.name for node in network.graph.nodes][-1] == "conv1"
