from __future__ import annotations

import pytest

from quantkit.calibration.table import read_table
from quantkit.files.files import shipped


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", sorted(path.stem for path in shipped("calibration").glob("*.json")))
def test_each_table_fits_the_network_of_its_name(name: str) -> None:
    from quantkit.fusion.fused_model import fuse_model
    from quantkit.models.load import load_model
    from quantkit.quantization.algorithms.stage import plan
    from quantkit.quantization.calibrate import calibrate

    table = read_table(shipped("calibration") / f"{name}.json")
    source = fuse_model(load_model(name), "digits:train")
    assert any(decision.is_int8 for decision in plan(source, table).decisions.values())
    again = calibrate(source, "digits:train", table.samples, table.method)
    assert again.data_sha256 == table.data_sha256
    for tensor, found in again.ranges.items():
        assert (found.low, found.high) == pytest.approx((table.ranges[tensor].low, table.ranges[tensor].high), rel=1e-2)
