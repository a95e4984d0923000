"""A bundle of the digits network and its analysis, made once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from quantkit.bundle.quantized_model import QuantizedModel
    from quantkit.diagnosis.layers.analysis import Analysis


@pytest.fixture(scope="session")
def digits_bundle(digits_int8: QuantizedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits network in INT8 without algorithms, calibrated with 8 images of digits:train."""
    return digits_int8.save(tmp_path_factory.mktemp("analysis") / "digits")


@pytest.fixture(scope="session")
def analysis(digits_bundle: Path) -> Analysis:
    """Its analysis over 12 other images."""
    from quantkit.diagnosis.layers.analyze import analyze

    return analyze(digits_bundle, "digits:test", num_samples=12)
