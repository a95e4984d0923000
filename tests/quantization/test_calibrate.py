"""Calibration tables of samples that are read in one piece, and in parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from quantkit.errors import DataError
from quantkit.fusion.fused_model import FusedModel
from quantkit.models.dataset import dataset
from quantkit.quantization.calibrate import calibrate
from tests.bad_images import digits_folder
from tests.sharding import InParts


@pytest.mark.parametrize("method", ["minmax", "entropy", "mse"])
def test_samples_in_parts_make_the_table_of_all(digits_fused: FusedModel, method: str) -> None:
    whole = calibrate(digits_fused, "digits:train", 50, method)
    for size in (4, 12, 48):
        assert calibrate(digits_fused, "digits:train", 50, method, executor=InParts(size)) == whole


@pytest.mark.parametrize("method", ["minmax", "entropy", "mse"])
def test_a_table_without_bad_samples_is_that_of_the_others(
    digits_fused: FusedModel, tmp_path: Path, method: str
) -> None:
    bad = {1, 4, 5, 6, 7, 21}
    damaged = str(digits_folder(tmp_path / "digits", 24, bad))
    sound = str(digits_folder(tmp_path / "sound", 24, left_out=bad))
    tolerant = dataset(digits_fused.model, damaged, skip_bad=6)
    whole = calibrate(digits_fused, tolerant, 24, method)
    expected = calibrate(digits_fused, sound, 18, method)
    assert whole.samples == 18 and whole.data_sha256 == expected.data_sha256
    assert whole.left_out == len(bad) == len(tolerant.left_out)
    # Ranges do not depend on the batches up to the engine's last bits.
    for name, bounds in expected.ranges.items():
        assert (whole.ranges[name].low, whole.ranges[name].high) == pytest.approx((bounds.low, bounds.high), rel=1e-4)
    for size in (4, 12, 24):
        assert calibrate(digits_fused, tolerant, 24, method, executor=InParts(size)) == whole
        with pytest.raises(DataError, match=r"021\.png: .*; 5 samples before it were left out, and no more may be"):
            calibrate(digits_fused, tolerant.skipping(5), 24, method, executor=InParts(size))
