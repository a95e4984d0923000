"""Several INT8 bundles in one process, with LSTM layers and without, which need other instructions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import environment

# Makes three bundles. The setting lets LSTM layers run in INT8 beside others.
_MAKE = """
import numpy as np
import quantkit
from quantkit.backends.mxnet.symbols import symbol_of
from tests.networks import DATA, Builder
from tests.sequences import sequence_network, sequences
b = Builder()
networks = {
    "lstm": (sequence_network("NTC"), sequences(4, tokens=False), "NTC"),
    "tokens": (sequence_network("NT"), sequences(4, tokens=True), "NT"),
    "dense": (b.graph(b.dense("dense", DATA, 6, 4)), np.random.default_rng(0).normal(size=(4, 6)).astype("f"), None),
}
for name, (graph, data, layout) in networks.items():
    shape = data.shape[1:]
    model = quantkit.load_model(symbol_of(graph), params=graph.params, input_shape=shape, layout=layout, quiet=True)
    quantkit.quantize(model, data, quantkit.QuantizationConfig(preset="none", num_samples=4)).save(name)
    np.save(f"{name}.npy", data)
"""

# Loads each bundle once and predicts with it in the order of the arguments; prints what tells results apart.
_PREDICT = """
import hashlib
import sys
import numpy as np
import quantkit
from quantkit.errors import EngineError
loaded = {}
for name in sys.argv[1:]:
    try:
        loaded[name] = loaded.get(name) or quantkit.load(name)
        scores = np.asarray(loaded[name].predict(np.load(f"{name}.npy")))
        print(hashlib.sha256(scores.tobytes()).hexdigest())
    except EngineError as error:
        print(error)
"""


def lines(folder: Path, script: str, *arguments: str, isa: str = "") -> list[str]:
    settings = environment(DNNL_MAX_CPU_ISA=isa, QUANTKIT_HOME=str(folder / "home"))
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.requires("onednn", "vnni")
def test_bundles_keep_their_results_or_are_refused(int8_engine: None, tmp_path: Path) -> None:
    lines(tmp_path, _MAKE, isa="AVX512_CORE")
    (lstm,) = lines(tmp_path, _PREDICT, "lstm", isa="AVX512_CORE")
    first, tokens, again, refused = lines(tmp_path, _PREDICT, "lstm", "tokens", "lstm", "dense")
    assert lstm == first == again != tokens
    assert "needs VNNI, and this process does without" in refused
    dense, refused, again = lines(tmp_path, _PREDICT, "dense", "lstm", "dense")
    assert dense == again
    assert "the network has INT8 LSTM layers: MXNet computed in this process before" in refused
