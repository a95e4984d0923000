"""Fixtures for bundles, and a home of each test's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quantkit.bundle import Bundle, read_bundle, write_float_bundle
from quantkit.deployment.predictor import Predictor
from quantkit.fusion.fused_model import FusedModel
from tests.bundle.conftest import edit as edit
from tests.bundle.conftest import resign as resign


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="session")
def bundle(digits_fused: FusedModel, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return read_bundle(write_float_bundle(digits_fused, tmp_path_factory.mktemp("deployed") / "fp32"))


@pytest.fixture
def directory(bundle: Bundle) -> Path:
    return bundle.directory


@pytest.fixture(scope="session")
def inputs(bundle: Bundle) -> np.ndarray:
    """More samples than a batch has, and not a whole number of batches."""
    return np.random.default_rng(0).random((37, *bundle.manifest.input.shape), dtype=np.float32)


@pytest.fixture(scope="session")
def expected(bundle: Bundle, inputs: np.ndarray) -> np.ndarray:
    """What the network computes in this process."""
    return Predictor(bundle).predict(inputs)
