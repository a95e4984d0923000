"""INT8 LSTM layers as they are written for ONNX: integers, and what engines compute with them in integers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.backends.registry import ONNX_ENGINES, ONNXRUNTIME, OPENVINO, REFERENCE
from quantkit.errors import ModelError, UserError
from quantkit.formats.onnx.reading.read import read_network
from quantkit.formats.onnx.writing.model import onnx_model
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.graph import Graph
from quantkit.ir.recurrent_layer import known_matrices
from quantkit.lowering.onnx_lstm import LstmForm, check_lstm_form, written_features, written_integers
from quantkit.lowering.qdq import qdq_network
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.recurrent_weights import lstm_integers
from quantkit.quantization.simulation.recurrent import dynamic_int8_lstm, int8_lstm
from tests.backends.mxnet.int8_lstm_run import network
from tests.initial_states import begun_network, states_of
from tests.networks import DATA, Builder
from tests.quantization.recurrent_networks import quantized
from tests.sequences import STACK, sequence_network, sequences

STEPS, FEATURES, HIDDEN = 12, 5, 6


def lstm_network(gain: float = 1.0) -> Graph:
    """One LSTM layer whose gates have weights of very different sizes."""
    b = Builder()
    sizes = np.repeat([1.0, 4.0, 0.5, 2.0], HIDDEN)[:, None] * gain
    matrices = [b.random.normal(size=(4 * HIDDEN, width)) * sizes / width**0.5 for width in (FEATURES, HIDDEN)]
    flat = np.concatenate([*(each.ravel() for each in matrices), 0.3 * b.random.normal(size=8 * HIDDEN)])
    stream = b.op("SwapAxis", "swap", DATA, dim1=0, dim2=1)
    states = [b.op("_zeros", name, shape=(1, 0, HIDDEN)) for name in ("state", "cell")]
    layer = b.op("RNN", "lstm", stream, b.param("flat", flat), *states, mode="lstm", num_layers=1, state_size=HIDDEN)
    result = b.op("SwapAxis", "back", layer, dim1=0, dim2=1)
    return Graph(tuple(b.nodes), ("data",), (result,), b.params)


def data(count: int, unsigned: bool = False) -> np.ndarray:
    values = np.random.default_rng(9).normal(size=(count, STEPS, FEATURES)).astype(np.float32)
    return np.abs(values) if unsigned else values


def file(network: QuantizedGraph, inputs: np.ndarray, lstm: LstmForm) -> bytes:
    written = qdq_network(network, infer_shapes(float_graph(network.graph), {"data": inputs[:1].shape}), lstm=lstm)
    return bytes(onnx_model(written.graph, written.shapes).SerializeToString())


def computed(engine: str, content: bytes, inputs: np.ndarray) -> np.ndarray:
    return ONNX_ENGINES[engine].backend().open_session(content).run({"data": inputs})[0]


def layer_by_definition(network: QuantizedGraph, inputs: np.ndarray, lstm: LstmForm) -> tuple[np.ndarray, float]:
    """What the only layer puts out by the arithmetic of its form, and one step of its state."""
    (layer,) = network.int8_lstms
    form, state = network.form(layer.data), network.form(layer.node.output).params
    arithmetic = dynamic_int8_lstm if lstm == "dynamic" else int8_lstm
    weights, integers = known_matrices(network.graph, layer), written_integers(network, layer, lstm)
    return arithmetic(inputs, weights, integers, form, state)[0], state.scale


@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.requires("openvino", "onnx")
def test_openvino_computes_with_the_integers_that_are_written(
    unsigned: bool, engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = data(3, unsigned)
    _, network = quantized(monkeypatch, lstm_network(), inputs)
    expected, step = layer_by_definition(network, inputs, "qdq")
    actual = computed(OPENVINO.name, file(network, inputs, "qdq"), inputs)
    steps = np.abs(actual - expected) / step
    assert steps.max() < 1.01
    assert (steps > 0.01).mean() < 0.01


@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.requires("onnxruntime", "onnx")
def test_onnx_runtime_computes_with_the_integers_of_the_plan(
    unsigned: bool, engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = data(1, unsigned)
    _, network = quantized(monkeypatch, lstm_network(), inputs)
    expected, step = layer_by_definition(network, inputs, "dynamic")
    actual = computed(ONNXRUNTIME.name, file(network, inputs, "dynamic"), inputs)
    assert (np.abs(actual - expected) > 0.1 * step).mean() < 0.01


@pytest.mark.requires("openvino", "onnx")
def test_openvino_runs_a_fixed_batch_in_integers_as_well(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import openvino

    inputs = data(2)
    _, network = quantized(monkeypatch, lstm_network(), inputs)
    content = file(network, inputs, "qdq")
    core = openvino.Core()
    model = core.read_model(content)
    model.reshape(list(inputs.shape))
    compiled = core.compile_model(model, "CPU")
    expected, step = layer_by_definition(network, inputs, "qdq")
    assert (np.abs(compiled(inputs)[0] - expected) > 0.01 * step).mean() < 0.01


@pytest.mark.parametrize("both_directions", [False, True])
@pytest.mark.parametrize("name", [ONNXRUNTIME.name, OPENVINO.name, REFERENCE.name])
@pytest.mark.requires("onnxruntime", "openvino", "onnx")
def test_networks_are_near_fp32_in_every_engine(
    name: str, both_directions: bool, engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = sequences(4, tokens=False)
    graph = network("signed", replace(STACK, bidirectional=True)) if both_directions else sequence_network("NTC")
    fused, int8 = quantized(monkeypatch, graph, inputs)
    assert len(int8.int8_lstms) == (4 if both_directions else 2)
    (exact,) = run(float_graph(fused.graph), {"data": inputs})
    for lstm in get_args(LstmForm) if name == ONNXRUNTIME.name else ("qdq",):
        scores = computed(name, file(int8, inputs, lstm), inputs)
        noise = np.square(scores - exact).sum() / np.square(exact).sum()
        assert -10 * np.log10(noise) > 30


@pytest.mark.parametrize("both_directions", [False, True])
@pytest.mark.parametrize(
    ("name", "lstm"),
    [
        *((ONNXRUNTIME.name, form) for form in get_args(LstmForm)),
        *((each.name, "qdq") for each in (OPENVINO, REFERENCE)),
    ],
)
@pytest.mark.requires("onnxruntime", "openvino", "onnx")
def test_given_and_final_states_are_near_fp32_in_every_engine(
    name: str, lstm: LstmForm, both_directions: bool, engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = sequences(4, tokens=False)
    # The reference evaluator has no final state of cells.
    outputs = (0, 1) if name == REFERENCE.name else (0, 1, 2)
    graph = begun_network(replace(STACK, bidirectional=both_directions), outputs=outputs)
    fused, int8 = quantized(monkeypatch, graph, inputs)
    content = file(int8, inputs, lstm)
    actual = ONNX_ENGINES[name].backend().open_session(content).run({"data": inputs})
    for values, exact in zip(actual, run(float_graph(fused.graph), {"data": inputs}), strict=True):
        noise = np.square(values - exact).sum() / np.square(exact).sum()
        assert -10 * np.log10(noise) > 30


@pytest.mark.requires("openvino", "onnx")
def test_openvino_rounds_the_state_that_is_given(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = sequences(3, tokens=False)
    graph = begun_network(replace(STACK, layers=1))
    _, int8 = quantized(monkeypatch, graph, inputs, exclude=["*_sums"])
    (layer,) = int8.int8_lstms
    initial = [state.swapaxes(0, 1) for state in states_of(graph, replace(STACK, layers=1), inputs)]
    form, state = int8.form(layer.data), int8.form(layer.node.output).params
    weights, integers = known_matrices(int8.graph, layer), written_integers(int8, layer, "qdq")
    expected, _ = int8_lstm(inputs, weights, integers, form, state, initial)
    steps = np.abs(computed(OPENVINO.name, file(int8, inputs, "qdq"), inputs) - expected) / state.scale
    assert steps.max() < 1.01
    assert (steps > 0.01).mean() < 0.01


@pytest.mark.requires("openvino", "onnxruntime", "onnx")
@pytest.mark.parametrize("name, lstm", [(ONNXRUNTIME.name, "dynamic"), (OPENVINO.name, "qdq")])
def test_engines_run_the_layers_in_int8(
    name: str, lstm: LstmForm, engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = sequences(4, tokens=False)
    _, network = quantized(monkeypatch, sequence_network("NTC"), inputs)
    layers = ONNX_ENGINES[name].backend().executed_layers(file(network, inputs, lstm), {"data": inputs})
    kernels = [layer for layer in layers if "LSTM" in layer.kernel or "RNN" in layer.kernel]
    assert [layer.precision for layer in kernels] == ["int8", "int8"]


def test_gates_whose_scales_openvino_exchanges_have_one_scale(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the coarser of both, so what weights stand for is kept within half a step of it, and none overflow."""
    _, network = quantized(monkeypatch, lstm_network(), data(2))
    (layer,) = network.int8_lstms
    written, planned = written_integers(network, layer, "qdq"), lstm_integers(network, layer)
    entering, forgetting, *others = np.split(written.scale, 4)
    both = np.split(planned.scale, 4)
    np.testing.assert_array_equal(entering, forgetting)
    np.testing.assert_array_equal(entering, np.maximum(*both[:2]))
    np.testing.assert_array_equal(others, both[2:])
    for what in ("of_input", "of_state"):
        mine, theirs = (getattr(each, what) * each.scale[:, None].astype(float) for each in (written, planned))
        assert (np.abs(mine - theirs) <= 0.5001 * written.scale[:, None]).all()
        assert (np.abs(getattr(written, what)) <= np.abs(getattr(planned, what))).all()


def test_no_two_layers_have_one_shape_which_openvino_would_confuse(
    engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = sequences(4, tokens=False)
    _, int8 = quantized(monkeypatch, network("signed", replace(STACK, bidirectional=True)), inputs)
    features = {layer.node.name: STACK.inputs for layer in int8.int8_lstms[:2]}
    features |= {layer.node.name: 2 * STACK.hidden for layer in int8.int8_lstms[2:]}
    written = written_features(int8)
    assert [written[name] - count for name, count in features.items()] == [0, 4, 0, 4]
    written_shapes = {(each.hidden, written[each.node.name]) for each in int8.int8_lstms}
    assert len(written_shapes) == 4


def test_dynamic_layers_have_the_integers_of_the_plan(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    _, network = quantized(monkeypatch, lstm_network(), data(2))
    (layer,) = network.int8_lstms
    planned, written = lstm_integers(network, layer), written_integers(network, layer, "dynamic")
    for what in ("of_input", "of_state", "scale"):
        np.testing.assert_array_equal(getattr(written, what), getattr(planned, what))


def test_unknown_forms_are_refused() -> None:
    with pytest.raises(UserError, match="unknown form of LSTM layers 'static'; choose one of qdq, dynamic"):
        check_lstm_form("static")


@pytest.mark.requires("onnx")
@pytest.mark.parametrize("lstm", get_args(LstmForm))
def test_files_are_not_read_back(lstm: LstmForm, engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inputs = data(2)
    _, network = quantized(monkeypatch, lstm_network(), inputs)
    path = tmp_path / "net.onnx"
    path.write_bytes(file(network, inputs, lstm))
    with pytest.raises(ModelError, match="is an INT8 network already"):
        read_network(path)
