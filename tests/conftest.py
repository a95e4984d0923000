"""Fixtures that several rooms share."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from quantkit.pipeline import FusedModel, QuantizedModel

# Who starts the tests in a shell's background has them ignore Ctrl-C, and with them all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run; HYPOTHESIS_PROFILE=long looks for others, and prints how to repeat what it finds.
settings.register_profile("short", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("long", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))

REAL_DATA = Path(os.environ.get("QUANTKIT_REAL_DATA") or Path(__file__).parents[2] / "shared" / "data")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of trained weights and labelled images that is not part of the project."""
    if not REAL_DATA.is_dir():
        pytest.skip(f"no real data at {REAL_DATA}; set QUANTKIT_REAL_DATA")
    return REAL_DATA


@pytest.fixture(scope="session")
def engine() -> None:
    """An installed engine."""
    from quantkit.engine.compat import load_mxnet
    from quantkit.errors import EngineMissing

    try:
        load_mxnet()
    except EngineMissing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def int8_engine(engine: None) -> None:
    """An installed engine that runs INT8 networks on this processor."""
    from quantkit.engine.support import int8_obstacle

    if obstacle := int8_obstacle():
        pytest.skip(obstacle)


@pytest.fixture(scope="session")
def digits_fused(engine: None) -> FusedModel:
    """The digits network that ships, fused."""
    from quantkit.models.load import load_model
    from quantkit.pipeline import fuse_model

    return fuse_model(load_model("digits_resnet20_v1"), "digits:train")


@pytest.fixture(scope="session")
def digits_int8(int8_engine: None, digits_fused: FusedModel) -> QuantizedModel:
    """The digits network in INT8, calibrated with 8 images."""
    from quantkit.pipeline import calibrate, emit, plan

    table = calibrate(digits_fused, "digits:train", 8)
    return emit(digits_fused, table, plan(digits_fused, table), "digits:train")


@pytest.fixture(scope="session")
def digits_onnx(digits_int8: QuantizedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the digits network in INT8 that holds its ONNX file. Do not alter it."""
    pytest.importorskip("onnx")
    return digits_int8.save(tmp_path_factory.mktemp("onnx") / "digits", formats=("mxnet", "onnx"))
