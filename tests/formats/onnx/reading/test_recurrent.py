"""Recurrent layers from ONNX files in MXNet, held against ONNX Runtime and against their definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.benchmark.suites.suite import Recurrent
from quantkit.errors import ModelError
from quantkit.formats.onnx.reading.network import import_network
from quantkit.models.load import load_model
from tests import recurrent
from tests.formats.onnx.reading.files import Extent, Writer, by_onnxruntime, save
from tests.requirements import package

onnxruntime = package("onnxruntime")
pytestmark = pytest.mark.usefixtures("engine")

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, FEATURES, UNITS = 5, 3, 4

BATCH_FIRST = ("N", STEPS, FEATURES)
STEPS_FIRST = (STEPS, "N", FEATURES)


def layer(w: Writer, op: str, data: str, *more: Any, features: int = FEATURES, bias: bool = True, **attrs: Any) -> Any:
    """A recurrent layer with random weights, and its outputs."""
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    rows = GATES[op] * UNITS
    own = {"linear_before_reset": 1} if op == "GRU" else {}
    biases: Any = w.constant(w.random.normal(size=(directions, 2 * rows))) if bias else ""
    weights = w.normal(directions, rows, features), w.normal(directions, rows, UNITS)
    outputs = attrs.pop("outputs", 3 if op == "LSTM" else 2)
    return w.op(op, data, *weights, biases, *more, count=outputs, **{"hidden_size": UNITS, **own, **attrs})


def opened(w: Writer, *outputs: str, folder: Path, shape: Optional[tuple[int, ...]] = None) -> tuple[Path, Any]:
    path = save(w.model(*outputs), folder / "net.onnx")
    return path, import_network(path, shape)


def check(w: Writer, *outputs: str, folder: Path, batch: Optional[int] = None) -> Any:
    """Import the network; its outputs are those of ONNX Runtime with the batch moved to the front."""
    path, imported = opened(w, *outputs, folder=folder)
    assert tuple(str(tensor) for tensor in imported.graph.outputs) == outputs
    data = np.random.default_rng(3).normal(size=(batch or 7, *imported.input_shape)).astype(np.float32)
    steps_first = w.shape[1] == "N" or (batch is not None and w.shape[1] == batch)
    expected = by_onnxruntime(path, np.ascontiguousarray(data.swapaxes(0, 1)) if steps_first else data)
    for each, own, tensor in zip(expected, run(imported.graph, {"x": data}), imported.graph.outputs):
        front = np.moveaxis(each, each.shape.index(len(data)), 0)
        assert own.shape == front.shape
        np.testing.assert_allclose(own, front, rtol=0, atol=1e-5)
        inferred = infer_shapes(imported.graph, {"x": (9, *imported.input_shape)})[tensor]
        assert inferred == (9, *front.shape[1:])
    return imported.graph


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_every_layer_in_every_direction(op: str, direction: str, tmp_path: Path) -> None:
    """All outputs at once, with the axes that ONNX gives them."""
    w = Writer(17, STEPS_FIRST)
    graph = check(w, *layer(w, op, "x", direction=direction), folder=tmp_path)
    (node,) = (node for node in graph.nodes if node.op == "RNN")
    assert (node.name, node.attrs["state_size"]) == (f"{op}_0", "4")


@pytest.mark.parametrize("opset", [9, 13, 21])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_without_biases_and_states(direction: str, opset: int, tmp_path: Path) -> None:
    w = Writer(opset, STEPS_FIRST)
    graph = check(w, layer(w, "LSTM", "x", bias=False, outputs=1, direction=direction), folder=tmp_path)
    assert not any("state_outputs" in node.attrs for node in graph.nodes)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_rectified_layers(direction: str, tmp_path: Path) -> None:
    w = Writer(17, STEPS_FIRST)
    names = ["Relu"] * (2 if direction == "bidirectional" else 1)
    y, _ = layer(w, "RNN", "x", direction=direction, activations=names)
    (node,) = (node for node in check(w, y, folder=tmp_path).nodes if node.op == "RNN")
    assert node.attrs["mode"] == "rnn_relu"


def pytorch(w: Writer, op: str, data: str, directions: int, *more: Any, features: int = FEATURES) -> str:
    """The sequences as PyTorch's exporter makes them of a layer's first output."""
    y = layer(w, op, data, *more, features=features, direction="bidirectional" if directions == 2 else "forward")[0]
    if directions == 1:
        return str(w.op("Squeeze", y, np.array([1])))
    turned = w.op("Transpose", y, perm=[0, 2, 1, 3])
    return str(w.op("Reshape", turned, np.array([0, 0, -1])))


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("op", GATES)
def test_two_layers_of_pytorch(op: str, directions: int, tmp_path: Path) -> None:
    """With ``batch_first``, and states of zero for the batch that the file computes from the input's shape."""
    w = Writer(17, BATCH_FIRST)
    batch = w.op("Gather", w.op("Shape", "x"), np.array(0), axis=0)
    extents = [w.constant(np.array([2 * directions])), w.op("Unsqueeze", batch, np.array([0])), np.array([UNITS])]
    zeros = w.op("Expand", w.constant(np.float32(0)), w.op("Concat", *extents, axis=0))
    data, features = w.op("Transpose", "x", perm=[1, 0, 2]), FEATURES
    for number in range(2):
        limits = (np.array([number * directions]), np.array([(number + 1) * directions]), np.array([0]))
        own = w.op("Slice", zeros, *limits)
        states = ["", *[own] * (2 if op == "LSTM" else 1)]
        data, features = pytorch(w, op, data, directions, *states, features=features), directions * UNITS
    data = w.op("Transpose", data, perm=[1, 0, 2])
    data = w.op("Add", w.op("MatMul", data, w.normal(features, 7)), w.normal(7))
    graph = check(w, data, folder=tmp_path)
    dense = graph.nodes[-1]
    assert (dense.op, dense.attrs["flatten"]) == ("FullyConnected", "False")
    # Nothing is left of the axis for the directions, nor of turning axes between the layers.
    ops = [node.op for node in graph.nodes if node.op != "_zeros"]
    assert ops == ["transpose", "RNN", "RNN", "transpose", "FullyConnected"]


def test_a_classifier_by_the_last_step(tmp_path: Path) -> None:
    w = Writer(17, STEPS_FIRST)
    data = w.op("Gather", pytorch(w, "GRU", "x", 2), np.array(-1), axis=0)
    check(w, w.op("Gemm", data, w.normal(6, 2 * UNITS), w.normal(6), transB=1), folder=tmp_path)


def test_a_classifier_by_the_last_state_as_keras_has_it(tmp_path: Path) -> None:
    """tf2onnx turns the input, and names the full length for every sequence."""
    w = Writer(15, BATCH_FIRST)
    turned = w.op("Transpose", "x", perm=[1, 0, 2])
    batch = w.op("Slice", w.op("Shape", turned), np.array([1]), np.array([2]), np.array([0]))
    lengths = w.op("Expand", w.constant(np.array([STEPS], np.int32)), batch)
    zeros = w.op("ConstantOfShape", w.op("Concat", np.array([1]), batch, np.array([UNITS]), axis=0))
    _, state, _ = layer(w, "LSTM", turned, lengths, zeros, zeros)
    data = w.op("Squeeze", state, np.array([0]))
    graph = check(w, w.op("Softmax", w.op("Gemm", data, w.normal(UNITS, 6))), folder=tmp_path)
    assert "_zeros" in {node.op for node in graph.nodes}


def test_states_that_are_constant_but_not_zero(tmp_path: Path) -> None:
    w = Writer(17, (STEPS, 6, FEATURES))
    states = [np.repeat(w.random.normal(size=(2, 1, UNITS)), 6, 1) for _ in range(2)]
    check(w, *layer(w, "LSTM", "x", "", *states, direction="bidirectional"), folder=tmp_path, batch=6)


def test_states_from_another_layer(tmp_path: Path) -> None:
    w = Writer(17, STEPS_FIRST)
    _, state, cell = layer(w, "LSTM", "x")
    check(w, *layer(w, "LSTM", "x", "", state, cell), folder=tmp_path)


@pytest.mark.parametrize(("op", "mode"), [("LSTM", "lstm"), ("GRU", "gru"), ("RNN", "rnn_tanh")])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_batches_first_within_the_layer(op: str, mode: str, direction: str, tmp_path: Path) -> None:
    """ONNX's layout 1, which ONNX Runtime does not run, against the definition."""
    w = Writer(17, BATCH_FIRST)
    _, imported = opened(w, *layer(w, op, "x", layout=1, direction=direction), folder=tmp_path)
    data = np.random.default_rng(3).normal(size=(2, STEPS, FEATURES)).astype(np.float32)
    sequences, state, *_ = run(imported.graph, {"x": data})
    directions = 2 if direction == "bidirectional" else 1
    stack = Recurrent(1, STEPS, FEATURES, UNITS, mode, directions == 2)
    (flat,) = (array for name, array in imported.graph.params.items() if name.endswith("_parameters"))
    expected = recurrent.outputs(stack, flat, data.swapaxes(0, 1)).reshape(STEPS, 2, directions, UNITS).swapaxes(0, 1)
    np.testing.assert_allclose(sequences, expected, rtol=0, atol=1e-5)
    last = [expected[:, -1, 0], *([expected[:, 0, 1]] if directions == 2 else [])]
    np.testing.assert_allclose(state, np.stack(last, 1), rtol=0, atol=1e-5)


def language_model(kind: int, shape: tuple[Extent, ...], steps_first: bool) -> ModelProto:
    """Tokens, an embedding, a layer, scores for every step."""
    w = Writer(17, shape)
    tokens = "x" if steps_first else w.op("Transpose", "x", perm=[1, 0])
    if kind == TensorProto.INT32:
        tokens = w.op("Cast", tokens, to=TensorProto.INT64)
    data = pytorch(w, "LSTM", w.op("Gather", w.normal(11, FEATURES), tokens), 1)
    data = w.op("Add", w.op("MatMul", data, w.normal(UNITS, 11)), w.normal(11))
    model = w.model(data if steps_first else w.op("Transpose", data, perm=[1, 0, 2]))
    model.graph.input[0].type.tensor_type.elem_type = kind
    return model


@pytest.mark.parametrize("steps_first", [True, False])
@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT32])
def test_tokens(kind: int, steps_first: bool, tmp_path: Path) -> None:
    shape = (STEPS, "N") if steps_first else ("N", STEPS)
    path = save(language_model(kind, shape, steps_first), tmp_path / "net.onnx")
    imported = import_network(path)
    assert imported.input_shape == (STEPS,)
    (embedding,) = (node for node in imported.graph.nodes if node.op == "Embedding")
    assert (embedding.attrs["input_dim"], embedding.attrs["output_dim"]) == ("11", "3")
    tokens = np.random.default_rng(2).integers(0, 11, (3, STEPS)).astype({7: np.int64, 6: np.int32}[kind])
    (expected,) = by_onnxruntime(path, np.ascontiguousarray(tokens.T) if steps_first else tokens)
    (scores,) = run(imported.graph, {"x": tokens.astype(np.float32)})
    np.testing.assert_allclose(scores, expected.swapaxes(0, 1) if steps_first else expected, rtol=0, atol=1e-5)


def test_lengths_left_open(tmp_path: Path) -> None:
    path = save(language_model(TensorProto.INT64, ("T", "N"), True), tmp_path / "net.onnx")
    with pytest.raises(ModelError, match="does not fix the shape of its input 'x'; give one"):
        import_network(path)
    assert import_network(path, (9,)).input_shape == (9,)


def test_names_of_outputs_stay_where_the_batch_moves(tmp_path: Path) -> None:
    """One output is computed from the other."""
    w = Writer(17, STEPS_FIRST)
    first = pytorch(w, "RNN", "x", 1)
    check(w, first, w.op("Tanh", first), folder=tmp_path)


def test_a_layer_with_the_name_of_its_output(tmp_path: Path) -> None:
    """The output keeps it."""
    w = Writer(17, STEPS_FIRST)
    outputs = layer(w, "GRU", "x", name="t0_0")
    assert outputs[0] == "t0_0"
    (node,) = (node for node in check(w, *outputs, folder=tmp_path).nodes if node.op == "RNN")
    assert node.origin == ("t0_0_1", "t0_0")


def with_state_inputs(extent: Extent) -> ModelProto:
    """Two layers that begin with their parts of two further inputs."""
    w = Writer(17, (STEPS, extent, FEATURES))
    data, features = "x", FEATURES
    for number in range(2):
        limits = (np.array([number]), np.array([number + 1]), np.array([0]))
        states = [w.op("Slice", name, *limits) for name in ("h_0", "c_0")]
        data, features = pytorch(w, "LSTM", data, 1, "", *states, features=features), UNITS
    model = w.model(data)
    model.graph.input.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, extent, UNITS]) for name in ("h_0", "c_0")
    )
    return model


@pytest.mark.parametrize("extent", ["N", 4])
def test_inputs_that_are_states_become_zero(extent: Extent, tmp_path: Path) -> None:
    path = save(with_state_inputs(extent), tmp_path / "net.onnx")
    assert load_model(path).notes[1:] == ("the initial states 'h_0', 'c_0' are zero",)
    imported = import_network(path)
    assert imported.graph.inputs == ("x",)
    data = np.random.default_rng(3).normal(size=(4, STEPS, FEATURES)).astype(np.float32)
    given = {
        "x": np.ascontiguousarray(data.swapaxes(0, 1)),
        **dict.fromkeys(("h_0", "c_0"), np.zeros((2, 4, UNITS), "f4")),
    }
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (expected,), (own,) = session.run(None, given), run(imported.graph, {"x": data})
    np.testing.assert_allclose(own, expected.swapaxes(0, 1), rtol=0, atol=1e-5)


def test_a_state_that_is_read_for_more_is_an_input_like_others(tmp_path: Path) -> None:
    model = with_state_inputs(4)
    model.graph.node.append(helper.make_node("Tanh", ["h_0"], ["more"]))
    model.graph.output.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, None))
    path = save(model, tmp_path / "net.onnx")
    with pytest.raises(
        ModelError, match="do not agree on the batch size: the first axis of 'x' has 5, that of 'h_0' 2"
    ):
        import_network(path)
