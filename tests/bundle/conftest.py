"""Bundles of a network made by hand, written once and copied for each test that alters them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.bundle import write_float_bundle
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.data.preprocess import Preprocess
from quantkit.evaluation.agreement import Agreement, OutputAgreement
from quantkit.files.files import sha256_of
from quantkit.fusion.fused_model import FusedModel, fuse_model
from quantkit.ir.graph import Graph
from quantkit.models.model import Model, Source
from quantkit.quantization.algorithms.stage import plan
from quantkit.quantization.calibrate import calibrate
from quantkit.quantization.config import QuantizationConfig
from quantkit.quantization.goal import Goal, MixedPrecision
from quantkit.quantization.ptq_config import PRESETS
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import DATA, Builder
from tests.quantized import SPEED

SOURCE = Source("net", "given", "made by hand", "5" * 64)
PREPROCESS = Preprocess(40, 16, (0.4, 0.5, 0.6), (0.2, 0.3, 0.4))


AGREEMENT = Agreement(6, 0.75, (OutputAgreement("dense", 0.5, 12.5, 0.25, 2.0),))


def network() -> Graph:
    """Of its parameters MXNet's checkpoints call two ``aux``."""
    b = Builder()
    stem = b.relu("relu", b.conv("conv", b.op("tanh", "tanh", b.batch_norm("bn", DATA, 3)), 3, 4))
    pooled = b.op("Pooling", "pool", stem, kernel=(8, 8), stride=(8, 8), pool_type="max")
    return b.graph(b.dense("dense", b.op("Flatten", "flatten", pooled), 16, 10))


def fused(samples: Any, **changes: Any) -> FusedModel:
    """The network as a model, fused and compared on samples."""
    model = Model("hand-made", network(), (3, 16, 16), PREPROCESS, SOURCE, tuple("abcdefghij"))
    return fuse_model(replace(model, **changes), samples)


def as_if_quantized(source: FusedModel, samples: Any) -> QuantizedModel:
    """All of its network is in FP32, since files do not care, and every processor runs that."""
    table = calibrate(source, samples, 3, "minmax")
    mixed = MixedPrecision(1.0, None, True, ("dense",), "agreement", 0.5, 6, "own")
    network = QuantizedGraph(source.fused.graph, plan(source, table, "*", "int8"))
    config = QuantizationConfig(table.samples, "minmax", ("*",), "int8", "fast", goal=Goal(1.0))
    config = replace(config, never_slower=True, speed_batch=SPEED.batch)
    return QuantizedModel(source, table, network, config, PRESETS["fast"], AGREEMENT, mixed, SPEED)


@pytest.fixture(scope="session")
def own() -> np.ndarray:
    """The user's own images."""
    return np.random.default_rng(3).integers(0, 256, (6, 50, 60, 3)).astype(np.uint8)


@pytest.fixture(scope="session")
def source(engine: None, own: np.ndarray) -> FusedModel:
    """Fused with the user's own images."""
    return fused(own)


@pytest.fixture(scope="session")
def quantized(source: FusedModel, own: np.ndarray) -> QuantizedModel:
    """Quantized with the user's own images."""
    return as_if_quantized(source, own)


@pytest.fixture(scope="session", params=["fp32", "int8"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of either kind. Do not alter it."""
    directory = tmp_path_factory.mktemp("written") / request.param
    if request.param == "fp32":
        return write_float_bundle(request.getfixturevalue("source"), directory)
    return request.getfixturevalue("quantized").save(directory)


@pytest.fixture(scope="session", params=["fp32", pytest.param("int8", marks=pytest.mark.int8)])
def digits_written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the digits network. Do not alter it."""
    directory = tmp_path_factory.mktemp("digits") / request.param
    if request.param == "fp32":
        return write_float_bundle(request.getfixturevalue("digits_fused"), directory)
    return request.getfixturevalue("digits_int8").save(directory)


@pytest.fixture
def bundle(written: Path, tmp_path: Path) -> Path:
    """A bundle of either kind, to alter."""
    return Path(shutil.copytree(written, tmp_path / "bundle"))


@pytest.fixture(scope="session")
def edit() -> Callable[..., None]:
    """Change a bundle's manifest: ``edit(bundle, function)`` hands the document to the function."""

    def edit_manifest(directory: Path, change: Callable[[dict], object]) -> None:
        path = directory / "manifest.json"
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    return edit_manifest


@pytest.fixture(scope="session")
def resign(edit: Callable[..., None]) -> Callable[[Path], None]:
    """Make a bundle's manifest name the hashes that its files have now."""

    def all_files(directory: Path, document: dict) -> None:
        for name, entry in document["files"].items():
            entry.update(sha256=sha256_of(directory / name), size=(directory / name).stat().st_size)

    return lambda directory: edit(directory, lambda document: all_files(directory, document))
