"""Recurrent layers, written as ONNX, in ONNX Runtime and OpenVINO, held against MXNet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.errors import ModelError
from quantkit.formats.onnx.reading.network import import_network
from quantkit.formats.onnx.writing.conversion import WRITTEN_OPERATORS
from quantkit.formats.onnx.writing.model import onnx_model
from quantkit.formats.onnx.written_form import written_problem
from quantkit.ir.graph import Graph, Tensor
from quantkit.ir.macs import GATES
from tests.formats.onnx.recurrent_networks import (
    FEATURES,
    STEPS,
    UNITS,
    VOCABULARY,
    flat_parameters,
    language_model,
    recurrent,
    states_of,
    turned,
)
from tests.networks import DATA, Builder
from tests.requirements import package, requires

onnxruntime = package("onnxruntime")
pytestmark = pytest.mark.usefixtures("engine")


def check(graph: Graph, data: np.ndarray, folder: Path, opset: int = 17) -> Any:
    """Every engine computes what MXNet does, for another batch than that of the shapes; so does the file read again."""
    shapes = infer_shapes(graph, {"data": (1, *data.shape[1:])})
    model = onnx_model(graph, shapes, opset)
    content = model.SerializeToString()
    assert written_problem(content, WRITTEN_OPERATORS) is None
    expected = run(graph, {"data": data.astype(np.float32)})
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for own, other in zip(expected, session.run(None, {"data": data})):
        np.testing.assert_allclose(other, own, rtol=0, atol=1e-5)
    path = folder / "net.onnx"
    path.write_bytes(content)
    imported = import_network(path)
    assert imported.input_shape == data.shape[1:]
    for own, other in zip(expected, run(imported.graph, {"data": data.astype(np.float32)})):
        np.testing.assert_allclose(other, own, rtol=0, atol=1e-5)
    return model


def sequences(batch: int = 3) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(batch, STEPS, FEATURES)).astype(np.float32)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("mode", GATES)
def test_sequences_and_states(mode: str, layers: int, bidirectional: bool, tmp_path: Path) -> None:
    b = Builder()
    node = recurrent(b, turned(b, "steps", DATA), mode, layers, bidirectional, state_outputs=True)
    states = [Tensor(node.node, index) for index in range(1, 3 if mode == "lstm" else 2)]
    outputs = [turned(b, f"out{index}", tensor) for index, tensor in enumerate((node, *states))]
    model = check(b.graph(*outputs), sequences(), tmp_path)
    assert [node.op_type for node in model.graph.node].count({"lstm": "LSTM", "gru": "GRU"}.get(mode, "RNN")) == layers


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_openvino_computes_the_same(opset: int, bidirectional: bool) -> None:
    openvino = package("openvino")
    b = Builder()
    node = recurrent(b, turned(b, "steps", DATA), "lstm", 2, bidirectional)
    graph, data = b.graph(turned(b, "out", node)), sequences()
    content = onnx_model(graph, infer_shapes(graph, {"data": (1, *data.shape[1:])}), opset).SerializeToString()
    core = openvino.Core()
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(content, b""), "CPU", exact)
    np.testing.assert_allclose(compiled([data])[0], run(graph, {"data": data})[0], rtol=0, atol=1e-5)


def test_states_that_are_computed(tmp_path: Path) -> None:
    """An encoder's states, each layer's to its own of the decoder; MXNet runs the layer backwards, too."""
    b = Builder()
    steps = turned(b, "steps", DATA)
    first = recurrent(b, b.op("reverse", "backwards", steps, axis=(0,)), "lstm", 2, state_outputs=True)
    flat = b.param("more", flat_parameters(b, "lstm", 2, 1))
    own = {"mode": "lstm", "state_size": UNITS, "num_layers": 2}
    node = b.op("RNN", "decoder", steps, flat, *(Tensor(first.node, index) for index in (1, 2)), **own)
    check(b.graph(turned(b, "out", node)), sequences(), tmp_path)


def test_a_language_model(tmp_path: Path) -> None:
    b = Builder()
    tokens = np.random.default_rng(2).integers(0, VOCABULARY, (3, STEPS))
    model = check(b.graph(language_model(b)), tokens, tmp_path)
    # The parameters are written once, in ONNX's order.
    assert {tensor.name for tensor in model.graph.initializer}.isdisjoint({"i2h_weight", "flat", "h2h_bias"})


def test_tokens_that_something_else_reads_stay_numbers() -> None:
    requires("onnxruntime")
    b = Builder()
    scores = language_model(b)
    graph = b.graph(scores, b.op("_mul_scalar", "doubled", DATA, scalar=2.0))
    model = onnx_model(graph, infer_shapes(graph, {"data": (1, STEPS)}), 17)
    assert model.graph.input[0].type.tensor_type.elem_type == 1
    tokens = np.random.default_rng(2).integers(0, VOCABULARY, (3, STEPS)).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for own, other in zip(run(graph, {"data": tokens}), session.run(None, {"data": tokens})):
        np.testing.assert_allclose(other, own, rtol=0, atol=1e-5)


def test_steps_and_batches_as_one_axis_between_layers(tmp_path: Path) -> None:
    """As Gluon's examples score each step: reshaped to (steps x batch, units) for a dense layer, and back."""
    b = Builder()
    flat = b.op("Reshape", "rows", recurrent(b, turned(b, "steps", DATA), "gru"), shape=(-1, UNITS))
    scores = b.op("Reshape", "by_step", b.dense("dense", flat, UNITS, 7), shape=(STEPS, -1, 7))
    check(b.graph(turned(b, "out", scores)), sequences(), tmp_path)


REFUSED = {
    "projection": ({"projection_size": 2}, "projection_size=2"),
    "clipped": ({"lstm_state_clip_min": -1.0}, "lstm_state_clip_min=-1.0"),
    "lengths": ({"use_sequence_length": True}, "use_sequence_length=True"),
    "mode": ({"mode": "peephole"}, "the mode 'peephole'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_onnx_lacks_is_refused(case: str) -> None:
    attrs, told = REFUSED[case]
    graph = refused_graph(Builder(), attrs)
    with pytest.raises(ModelError, match=f"^node 'layers' \\(RNN\\) cannot be written as ONNX: {told}; end"):
        onnx_model(graph, {DATA: (STEPS, 1, FEATURES)}, 17)


def refused_graph(b: Builder, attrs: dict[str, Any]) -> Graph:
    flat = b.param("flat", flat_parameters(b, "lstm", 1, 1))
    own = {"mode": "lstm", "state_size": UNITS, "num_layers": 1, **attrs}
    return b.graph(b.op("RNN", "layers", DATA, flat, *states_of(b, "lstm", 1), **own))


def test_parameters_that_do_not_fit() -> None:
    graph = refused_graph(Builder(), {"state_size": 5})
    with pytest.raises(ModelError, match=r"^node 'layers' \(RNN\) has 144 parameters and needs 200; correct them$"):
        onnx_model(graph, {DATA: (STEPS, 1, FEATURES)}, 17)


def test_zeros_that_are_no_state() -> None:
    b = Builder()
    zeros = b.op("_zeros", "zeros", shape=(0, 3), dtype="float32")
    graph = b.graph(b.op("elemwise_add", "sum", DATA, zeros))
    with pytest.raises(ModelError, match="zeros for a batch of unknown size, other than as the state"):
        onnx_model(graph, {}, 17)


def test_parameters_that_are_computed() -> None:
    b = Builder()
    flat = b.op("exp", "exponents", b.param("flat", flat_parameters(b, "gru", 1, 1)))
    states = states_of(b, "gru", 1)
    graph = b.graph(b.op("RNN", "layers", DATA, flat, *states, mode="gru", state_size=UNITS, num_layers=1))
    with pytest.raises(ModelError, match="its parameters are computed; make them one constant vector"):
        onnx_model(graph, {}, 17)
