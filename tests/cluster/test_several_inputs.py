"""Networks with several inputs on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import quantkit
from quantkit.cluster.executor import ClusterExecutor
from quantkit.quantization.calibrate import calibrate
from tests.several_inputs import samples, write_network

if TYPE_CHECKING:
    from distributed import Client

pytestmark = pytest.mark.requires("onednn", "onnx", "cluster")


@pytest.mark.parametrize("form", ["named", "sent"])
def test_tables_are_those_of_one_process(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))
    write_network(tmp_path / "net.onnx")
    fused = quantkit.fuse(quantkit.load_model(tmp_path / "net.onnx"), samples(8))
    given: Any = samples(40)
    if form == "named":
        np.savez(tmp_path / "samples.npz", **given)
        given = str(tmp_path / "samples.npz")
    whole = calibrate(fused, given, 40, "entropy")
    assert {"picture", "numbers"} <= set(whole.ranges)
    with ClusterExecutor(client, 8) as executor:
        assert calibrate(fused, given, 40, "entropy", executor=executor) == whole
    assert len(executor.work) == 5
