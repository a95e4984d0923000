"""How the worker loads networks in OpenVINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.benchmark.workers.worker_openvino import Network
from quantkit.formats.onnx.writing.model import onnx_model
from quantkit.fusion.float_symbol import float_graph
from quantkit.lowering.qdq import qdq_network
from tests.quantization.recurrent_networks import quantized
from tests.sequences import sequence_network, sequences


@pytest.mark.requires("openvino", "onnx")
def test_lstm_layers_of_a_fixed_batch_run_in_int8(
    engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = sequences(4, tokens=False).astype(np.float32)
    _, network = quantized(monkeypatch, sequence_network("NTC"), data)
    written = qdq_network(network, infer_shapes(float_graph(network.graph), {"data": data[:1].shape}))
    path = tmp_path / "network.onnx"
    path.write_bytes(onnx_model(written.graph, written.shapes).SerializeToString())
    loaded = Network({"onnx": str(path)}, threads=1)
    loaded.bind("data", data)
    loaded.run()
    layers = len(network.int8_layers) + len(network.int8_lstms)
    assert loaded.kernels() == {"int8": layers, "of": layers}
