"""What MXNet's own quantizer makes of an LSTM, beside quantkit's, as the page on recurrent layers says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from quantkit.backends.mxnet.instructions import VARIABLE
from tests.backends.mxnet import stock_lstm_run

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.requires("onednn")
def test_one_scale_for_data_and_state_costs_much() -> None:
    env = {name: value for name, value in os.environ.items() if name != VARIABLE}
    command = [sys.executable, "-m", stock_lstm_run.__name__]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ratios = json.loads(done.stdout.splitlines()[-1])
    assert (ratios["stock"], ratios["own"]) == pytest.approx((18.4, 34.9), abs=0.5)
