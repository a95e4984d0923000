"""Reading outputs leaves the engine's threads alone."""

from __future__ import annotations

import pytest

from tests.backends.mxnet import outputs_run
from tests.backends.mxnet.test_int8_lstm import told
from tests.requirements import requires


def test_reading_outputs_starts_no_threads(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of convolutions are in a layout of oneDNN's; libgomp's threads would sleep if they were more."""
    requires("two-cpus")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    found = told(module=outputs_run)
    assert found["before"] == found["after"] > 2
    # Other programs of the thread may have theirs.
    assert found["asked"] == 2
