"""Quantized networks with LSTM layers in files: their weights are there once, and lower to the same network again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.bundle.file_names import FUSED_PARAMS, QUANTIZATION
from quantkit.bundle.quantization import read_quantized, write_quantized
from quantkit.errors import ModelError
from quantkit.formats.mxnet import nnvm
from quantkit.formats.mxnet.params import read_params, write_params
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.graph import Graph
from quantkit.lowering.qdq import qdq_network
from quantkit.progress import silent
from quantkit.quantization.algorithms.apply import apply_algorithms
from quantkit.quantization.ptq_config import PresetName, preset
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.recurrent_weights import lstm_integers
from tests.initial_states import begun_network
from tests.quantization.recurrent_networks import quantized
from tests.sequences import STACK, sequence_network, sequences

DATA = sequences(8, tokens=False)


@pytest.fixture(params=["none", "balanced"])
def network(engine: None, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> QuantizedGraph:
    name: PresetName = request.param
    fused, planned = quantized(monkeypatch, sequence_network("NTC"), DATA)
    return apply_algorithms(planned, fused.original, [DATA], "minmax", preset(name), silent).network


def test_layers_keep_their_integers_and_biases(network: QuantizedGraph, tmp_path: Path) -> None:
    lowered = write_quantized(network, tmp_path)
    again = read_quantized(tmp_path, lowered)
    assert again.weight_scales.keys() == {node.name for node in network.int8_weighted}
    for lstm in network.int8_lstms:
        before, after = lstm_integers(network, lstm), lstm_integers(again, lstm)
        for name in ("of_input", "of_state", "scale"):
            np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
        flat, own = (each.graph.params[lstm.parameters.node] for each in (again, network))
        biases = 2 * 4 * STACK.hidden
        np.testing.assert_array_equal(flat[-biases:], own[-biases:])
        np.testing.assert_allclose(flat, own, atol=np.abs(own).max() / 25)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_layers_keep_the_states_that_they_read_and_put_out(
    bidirectional: bool, engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    graph = begun_network(replace(STACK, bidirectional=bidirectional), outputs=(0, 1, 2))
    _, written = quantized(monkeypatch, graph, DATA)
    read = read_quantized(tmp_path, write_quantized(written, tmp_path))
    assert len(read.int8_lstms) == (4 if bidirectional else 2)
    assert all(len(lstm.states) == 2 and lstm.puts_out_cell for lstm in read.int8_lstms)
    assert read.graph.nodes == written.graph.nodes


def test_the_fused_network_has_no_weights_of_its_own(network: QuantizedGraph, tmp_path: Path) -> None:
    write_quantized(network, tmp_path)
    own = read_params(tmp_path / FUSED_PARAMS)
    for lstm in network.int8_lstms:
        assert own[lstm.parameters.node].shape == (3 * 4 * STACK.hidden,)
    assert json.loads((tmp_path / QUANTIZATION).read_text())["version"] == 2


def test_what_is_read_is_written_alike(network: QuantizedGraph, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    write_quantized(read_quantized(first, write_quantized(network, first)), second)
    assert {path.name: path.read_bytes() for path in first.iterdir()} == {
        path.name: path.read_bytes() for path in second.iterdir()
    }


def test_what_is_read_has_the_same_qdq_form(network: QuantizedGraph, tmp_path: Path) -> None:
    again = read_quantized(tmp_path, write_quantized(network, tmp_path))
    shapes = infer_shapes(float_graph(network.graph), {"data": DATA.shape})
    first, second = (qdq_network(each, shapes).graph for each in (network, again))
    assert nnvm.serialize(first) == nnvm.serialize(second)
    for name, value in first.params.items():
        np.testing.assert_array_equal(second.params[name], value)


def test_version_1_held_the_weights_whole(engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _, network = quantized(monkeypatch, sequence_network("NTC"), DATA)
    lowered = write_quantized(network, tmp_path)
    own = {**read_params(tmp_path / FUSED_PARAMS), **_vectors(network)}
    with (tmp_path / FUSED_PARAMS).open("wb") as file:
        write_params(file, own)

    def as_before(document: dict[str, Any]) -> None:
        del document["lstms"], document["integer_dense"]
        document["version"] = 1

    _change(tmp_path, as_before)
    again = read_quantized(tmp_path, lowered)
    assert again.weight_scales.keys() == {layer.node.name for layer in network.int8_layers}
    for name, vector in _vectors(network).items():
        np.testing.assert_array_equal(again.graph.params[name], vector)


def test_weights_that_two_layers_share_are_stored_whole(
    engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, network = quantized(monkeypatch, sequence_network("NTC"), sequences(4, tokens=False))
    first, second = network.int8_lstms
    vector = network.graph.params[second.parameters.node]
    shared = replace(second.node, inputs=(second.data, second.parameters))
    third = replace(shared, name="third", inputs=(second.node.output, second.parameters))
    nodes = [each for node in network.graph.nodes for each in ((node, third) if node is second.node else (node,))]
    graph = replace(network.graph, nodes=tuple(nodes), outputs=(third.output,)).pruned()
    plan = network.plan
    decisions = {**plan.decisions, "third": replace(plan.decisions[second.node.name], node="third")}
    decisions = {node.name: decisions[node.name] for node in graph.nodes}
    tensors = {**plan.tensors, third.output: plan.tensors[second.node.output]}
    network = QuantizedGraph(graph, replace(plan, decisions=decisions, tensors=tensors))
    again = read_quantized(tmp_path, write_quantized(network, tmp_path))
    np.testing.assert_array_equal(again.graph.params[second.parameters.node], vector)
    assert {first.node.name} == again.weight_scales.keys() - {layer.node.name for layer in network.int8_layers}


def _vectors(network: QuantizedGraph) -> dict[str, np.ndarray]:
    return {each.parameters.node: network.graph.params[each.parameters.node] for each in network.int8_lstms}


def _change(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads((folder / QUANTIZATION).read_text())
    change(document)
    (folder / QUANTIZATION).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _without_forms_of_states(document: dict[str, Any]) -> None:
    document["tensors"] = [each for each in document["tensors"] if each["node"] == "data"]


DAMAGE: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no such parameter": (
        lambda d: d["lstms"][0].update(parameters="nothing"),
        "LSTM layer 'lstm.*': its weights, 'nothing', are missing; write the bundle again",
    ),
    "no such layer": (
        lambda d: d["lstms"][0].update(name="dense_weight"),
        "there are no biases and scales 'dense_weight' of an LSTM layer; write the bundle again",
    ),
    "other features": (lambda d: d["lstms"][0].update(features=2), "does not hold weights for 2 features"),
    "too many features": (lambda d: d["lstms"][0].update(features=9), "does not hold weights for 9 features"),
    "no features": (lambda d: d["lstms"][0].update(features=0), r"at lstms\.0\.features"),
    "one feature more": (lambda d: d["lstms"][0].update(features=6), "is not as quantkit writes it"),
    "other weights": (
        lambda d: d["lstms"][0].update(parameters="lstm_fused_0_rnn_scale"),
        "does not hold weights for 5 features",
    ),
    "version 1": (lambda d: d.update(version=1), "is not as quantkit writes it"),
    "no scale of the state": (
        _without_forms_of_states,
        "LSTM layer 'lstm.*': its data or its state have no INT8 form in the plan; write the bundle again",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_what_contradicts_itself_is_refused(network: QuantizedGraph, case: str, tmp_path: Path) -> None:
    change, message = DAMAGE[case]
    lowered = write_quantized(network, tmp_path)
    _change(tmp_path, change)
    with pytest.raises(ModelError, match=message):
        read_quantized(tmp_path, lowered)


def _with(lowered: Graph, value: float) -> Graph:
    name = next(name for name in lowered.params if name.endswith("_int8_parameters"))
    damaged = lowered.params[name].copy()
    damaged[3] = value
    return replace(lowered, params={**lowered.params, name: damaged})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, "_int8_parameters' holds values that are not finite; write the bundle again"),
        (0.37, "the values of '.*_int8_parameters' differ"),
    ],
)
def test_other_weights_are_another_network(network: QuantizedGraph, value: float, message: str, tmp_path: Path) -> None:
    lowered = write_quantized(network, tmp_path)
    with pytest.raises(ModelError, match=message):
        read_quantized(tmp_path, _with(lowered, value))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda vector: vector[1:], "does not hold biases and scales of an LSTM layer"),
        (lambda vector: -vector, "does not hold finite biases and positive scales; write the bundle again"),
    ],
)
def test_other_biases_and_scales_are_refused(
    network: QuantizedGraph, damage: Callable[[np.ndarray], np.ndarray], message: str, tmp_path: Path
) -> None:
    lowered = write_quantized(network, tmp_path)
    own = read_params(tmp_path / FUSED_PARAMS)
    name = network.int8_lstms[0].parameters.node
    with (tmp_path / FUSED_PARAMS).open("wb") as file:
        write_params(file, {**own, name: damage(own[name])})
    with pytest.raises(ModelError, match=message):
        read_quantized(tmp_path, lowered)


def test_biases_and_scales_that_are_missing_are_named(network: QuantizedGraph, tmp_path: Path) -> None:
    lowered = write_quantized(network, tmp_path)
    own = read_params(tmp_path / FUSED_PARAMS)
    name = network.int8_lstms[0].parameters.node
    with (tmp_path / FUSED_PARAMS).open("wb") as file:
        write_params(file, {each: value for each, value in own.items() if each != name})
    with pytest.raises(ModelError, match=f"no biases and scales '{name}' of an LSTM layer; write the bundle again"):
        read_quantized(tmp_path, lowered)
