"""Unrolled cells of Gluon, from a block to INT8."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import environment

# oneDNN chooses its instructions once for each process; the unfused network comes first here.
_QUANTIZE = """
import json, sys
import numpy as np
import quantkit as qk
from quantkit.backends.mxnet.execute import run
from tests.cells import block, stacked
from tests.sequences import FEATURES, STEPS, sequences

layout, folder = sys.argv[1:]
model = qk.load_model(block(stacked("lstm", 2), layout, classes=7), input_shape=(STEPS, FEATURES), layout=layout)
data = sequences(16, tokens=False)
(wanted,) = run(model.graph, {"data": data})
quantized = qk.quantize(model, data, qk.QuantizationConfig(preset="none"))
directory = quantized.save(folder)
scores = qk.load(directory).predict(data)
print(json.dumps({
    "precisions": {each.operator: each.precision for each in quantized.network.plan.decisions.values()},
    "error": float(np.abs(scores - wanted).max() / np.abs(wanted).max()),
    "shape": scores.shape,
}))
"""


@pytest.mark.requires("onednn")
@pytest.mark.parametrize("layout", ["NTC", "TNC"])
def test_cells_run_in_int8_as_lstm_layers(int8_engine: None, layout: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _QUANTIZE, layout, str(tmp_path / "int8")]
    settings = environment(DNNL_MAX_CPU_ISA="")
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["precisions"]["LSTM"] == told["precisions"]["FullyConnected"] == "int8"
    assert told["shape"] == [16, 6, 7]
    assert 0 < told["error"] < 0.05
