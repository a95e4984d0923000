"""Calibration tables of samples that are read in one piece, and in parts."""

from __future__ import annotations

import pytest

from quantkit.fusion.fused_model import FusedModel
from quantkit.quantization.calibrate import calibrate
from tests.sharding import InParts


@pytest.mark.parametrize("method", ["minmax", "entropy", "mse"])
def test_samples_in_parts_make_the_table_of_all(digits_fused: FusedModel, method: str) -> None:
    whole = calibrate(digits_fused, "digits:train", 50, method)
    for size in (4, 12, 48):
        assert calibrate(digits_fused, "digits:train", 50, method, executor=InParts(size)) == whole
