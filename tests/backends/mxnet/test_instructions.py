"""INT8 networks in processes that do without VNNI for the sake of LSTM layers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Optional

import numpy as np
import pytest

from quantkit import stages
from quantkit.api import quantize
from quantkit.backends.mxnet import instructions
from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.errors import EngineError
from quantkit.formats.mxnet import nnvm
from quantkit.ir.graph import Graph
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.models.load import load_model
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import DATA, Builder, images, residual_v1
from tests.processes import environment
from tests.quantization.algorithms.networks import planned
from tests.quantization.test_recurrent_plan import mixed_network
from tests.sequences import sequence_network, sequences

VECTORS = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)

# Runs, in the order of the arguments, an FP32 network with LSTM layers and an INT8 network of two dense layers.
_RUN = """
import sys
import numpy as np
from quantkit.backends.mxnet.execute import run
from quantkit.errors import EngineError
from quantkit.formats.mxnet import nnvm
from tests.quantization.test_recurrent_plan import mixed_network
from tests.sequences import sequence_network, sequences
with np.load("dense.npz") as stored:
    dense = nnvm.parse(open("dense.json").read(), dict(stored))
inputs = {"dense": np.load("vectors.npy"), "lstm": sequences(2, tokens=False)}
for name in sys.argv[1:]:
    try:
        run(dense if name == "dense" else sequence_network("NTC"), {"data": inputs[name]})
        print(name, "runs")
    except EngineError as error:
        print(error)
"""

# Prepares for a network, and says whether the process does without VNNI and what processes that it starts are told.
_PREPARE = """
import os
import numpy as np
from quantkit.backends.mxnet.instructions import VARIABLE, does_without_vnni, prepare_instructions
from quantkit.formats.mxnet import nnvm
with np.load("network.npz") as stored:
    prepare_instructions(nnvm.parse(open("network.json").read(), dict(stored)))
print(does_without_vnni(), os.environ.get(VARIABLE))
"""


def dense() -> Graph:
    b = Builder()
    return b.graph(b.dense("dense", DATA, 6, 4))


def int8_form(graph: Graph, data: np.ndarray) -> Graph:
    fused, plan = planned(graph, data)
    return int8_graph(QuantizedGraph(fused.graph, plan))


@pytest.fixture
def without_vnni(int8_engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has run LSTM layers; nothing else limits it."""
    monkeypatch.setattr(instructions, "does_without_vnni", lambda: True)


@pytest.mark.parametrize(
    ("graph", "data", "layer"), [(dense(), VECTORS, "quantized_dense"), (residual_v1(), images(), "quantized_relu0")]
)
def test_layers_that_would_saturate_are_refused(without_vnni: None, graph: Graph, data: np.ndarray, layer: str) -> None:
    lowered = int8_form(graph, data)
    with pytest.raises(EngineError, match=f"'{layer}' needs VNNI, .*process of its own, or before any network"):
        MxnetSession(lowered)


@pytest.mark.requires("onednn")
def test_dense_layers_whose_pairs_fit_run(without_vnni: None) -> None:
    data = sequences(4, tokens=False)
    lowered = int8_form(sequence_network("NTC", "ones"), data)
    assert any(node.attrs.get("quantized") == "true" for node in lowered.nodes)
    MxnetSession(lowered).run({"data": data})


def test_such_a_network_is_not_quantized(without_vnni: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "apply_algorithms", lambda *_: pytest.fail("it is refused before that"))
    graph = dense()
    model = load_model(symbol_of(graph), params=graph.params, input_shape=VECTORS.shape[1:])
    with pytest.raises(EngineError, match="'dense' needs VNNI"):
        quantize(model, VECTORS)


@pytest.mark.requires("onednn", "vnni")
@pytest.mark.parametrize(
    ("order", "isa", "told"),
    [
        (("lstm", "dense"), None, "lstm runs\nthe INT8 layer 'quantized_dense' needs VNNI"),
        (("dense", "lstm"), None, "dense runs\nlstm runs\n"),
        (("lstm", "dense"), "AVX512_CORE", "lstm runs\ndense runs\n"),
    ],
)
def test_the_order_matters(
    int8_engine: None, order: tuple[str, ...], isa: Optional[str], told: str, tmp_path: Path
) -> None:
    lowered = int8_form(dense(), VECTORS)
    store(lowered, tmp_path, "dense")
    np.save(tmp_path / "vectors.npy", VECTORS)
    assert run_here(tmp_path, isa, _RUN, *order).startswith(told)


def store(graph: Graph, folder: Path, name: str) -> None:
    (folder / f"{name}.json").write_text(nnvm.serialize(graph))
    np.savez(folder / f"{name}.npz", **graph.params)


def run_here(folder: Path, isa: Optional[str], script: str, *arguments: str) -> str:
    """What a process of its own prints in a folder, started with ``DNNL_MAX_CPU_ISA`` or without."""
    settings = environment() if isa is None else environment(DNNL_MAX_CPU_ISA=isa)
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.requires("onednn", "vnni")
@pytest.mark.parametrize(
    ("network", "isa", "told"),
    [
        ("lstm", None, "True None"),
        ("lstm", "", "True"),
        ("lstm", "AVX512_CORE", "False AVX512_CORE"),
        ("convolutions", None, "False None"),
        ("quantized", None, "False None"),
    ],
)
def test_which_networks_do_without_vnni(
    int8_engine: None, network: str, isa: Optional[str], told: str, tmp_path: Path
) -> None:
    graph = mixed_network(2) if network == "convolutions" else sequence_network("NTC", "ones")
    if network == "quantized":
        # Its LSTM layers are FP32, and no pair of its dense layer overflows.
        graph = int8_form(graph, sequences(4, tokens=False))
    store(graph, tmp_path, "network")
    assert run_here(tmp_path, isa, _PREPARE).strip() == told


@pytest.mark.requires("onednn", "vnni")
@pytest.mark.parametrize(
    ("isa", "told"),
    [
        ("", "None"),
        ("AVX2", "None"),
        ("ALL", "is 'ALL', which admits VNNI"),
        ("avx512_core", "is 'avx512_core', which"),
    ],
)
def test_why_lstm_layers_do_not_run_in_int8(isa: str, told: str) -> None:
    script = "from quantkit.backends.mxnet.instructions import int8_lstm_obstacle; print(int8_lstm_obstacle())"
    command = [sys.executable, "-c", script]
    settings = environment(DNNL_MAX_CPU_ISA=isa)
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    assert told in done.stdout
    assert "before" not in done.stdout
