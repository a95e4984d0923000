"""Gluon blocks as networks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.processes import environment

_LOAD = """
from quantkit import load_model
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.instructions import int8_lstm_obstacle
layers = load_mxnet().gluon.rnn.LSTM(8, layout="NTC")
layers.initialize()
params = load_model(layers, input_shape=(5, 3), quiet=True).graph.params
print(sum(value.size for value in params.values()))
print(int8_lstm_obstacle())
"""


@pytest.mark.requires("onednn", "vnni")
def test_loading_leaves_it_open_which_instructions_the_engine_uses(int8_engine: None) -> None:
    command = [sys.executable, "-c", _LOAD]
    settings = environment(DNNL_MAX_CPU_ISA="")
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    values, obstacle = done.stdout.splitlines()
    assert int(values) == 4 * 8 * (3 + 8 + 2)
    assert obstacle == "None"
