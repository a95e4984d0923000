"""Dense layers that follow each other in INT8: what MXNet runs between them, and that it is what was simulated."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import quantkit
from quantkit.backends.mxnet import capabilities
from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.bundle.read import read_bundle
from quantkit.bundle.summary import _stored_in_fp32
from quantkit.errors import ModelError
from quantkit.ir.graph import Graph, Tensor
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.mixed_precision.kept_in_fp32 import kept_in_fp32
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.simulation.simulator import int8_network
from tests.networks import Builder

FEATURES = 24
WIDTHS = (FEATURES, 48, 32, 40, 6)

pytestmark = [pytest.mark.usefixtures("int8_engine"), pytest.mark.requires("onednn")]


def network() -> Graph:
    """Four dense layers: ReLU after the first and the second, none after the third."""
    b = Builder()
    data = Tensor("data")
    for number, (features, units) in enumerate(pairwise(WIDTHS)):
        data = b.dense(f"dense{number}", data, features, units)
        if number < 2:
            data = b.relu(f"relu{number}", data)
    return Graph(tuple(b.nodes), ("data",), (data,), b.params)


def vectors(count: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, FEATURES)).astype(np.float32)


def planned(graph: Graph, exclude: tuple[str, ...] = ()) -> QuantizedGraph:
    model = quantkit.load_model(symbol_of(graph), params=graph.params, input_shape=(FEATURES,))
    fused = quantkit.fuse(model, vectors(4))
    return QuantizedGraph(
        fused.fused.graph, quantkit.plan(fused, quantkit.calibrate(fused, vectors(64), 64, "minmax"), exclude)
    )


def operators(quantized: QuantizedGraph) -> list[str]:
    return [node.op for node in int8_graph(quantized).nodes]


def simulated(quantized: QuantizedGraph, data: np.ndarray) -> np.ndarray:
    int8 = int8_network(quantized)
    values = {Tensor("data"): data}
    for node in quantized.graph.nodes:
        values[node.output] = int8.results(node, values)[0]
    return values[quantized.graph.outputs[0]]


@pytest.mark.requires("vnni")
def test_nothing_is_between_them_and_the_result_is_the_simulator_s() -> None:
    quantized = planned(network())
    assert operators(quantized) == [
        "_contrib_quantize_v2", *["_sg_mkldnn_fully_connected"] * 4, "broadcast_mul", "broadcast_add",
    ]  # fmt: skip
    forms = [quantized.form(quantized.graph.producer(layer.data).output).dtype for layer in quantized.int8_layers[1:]]
    assert forms == ["uint8", "uint8", "int8"]
    data = vectors(50, seed=4)
    (computed,) = run(int8_graph(quantized), {"data": data})
    expected = simulated(quantized, data)
    # Engine and simulator round a few values of a layer differently, where a bias lies between two integers.
    assert np.mean(np.abs(computed - expected) > 1e-4 * np.abs(expected).max()) < 0.05
    np.testing.assert_allclose(computed, expected, rtol=0, atol=0.02 * np.abs(expected).max())
    (fp32,) = run(network(), {"data": data})
    assert np.linalg.norm(computed - fp32) < 0.05 * np.linalg.norm(fp32)


@pytest.mark.requires("vnni")
@pytest.mark.parametrize("preset", ["none", "balanced"])
def test_bundles_of_them_are_read_verified_and_exported(preset: str, tmp_path: Path) -> None:
    graph = network()
    model = quantkit.load_model(symbol_of(graph), params=graph.params, input_shape=(FEATURES,))
    quantized = quantkit.quantize(model, vectors(64), quantkit.QuantizationConfig(preset=preset))  # type: ignore[arg-type]
    directory = quantized.save(tmp_path / "int8", formats=("mxnet", "onnx"))
    assert json.loads((directory / "quantization.json").read_text())["integer_dense"] is True
    assert quantkit.verify(directory).ok
    assert operators(read_bundle(directory).network) == operators(quantized.network)
    assert list(_stored_in_fp32(quantized.network)) == ["dense layers"]
    data = vectors(50, seed=4)
    (fp32,) = run(graph, {"data": data})
    scores = {engine: quantkit.load(directory, engine=engine).predict(data) for engine in ("mxnet", "onnxruntime")}
    for each in scores.values():
        assert np.linalg.norm(each - fp32) < 0.05 * np.linalg.norm(fp32)
    step = np.abs(scores["mxnet"]).max() / 127
    np.testing.assert_allclose(scores["onnxruntime"], scores["mxnet"], rtol=0, atol=3 * step)


def test_algorithms_fit_the_weights_that_the_engine_rounds() -> None:
    graph = network()
    model = quantkit.load_model(symbol_of(graph), params=graph.params, input_shape=(FEATURES,))
    data = vectors(50, seed=4)
    (fp32,) = run(graph, {"data": data})

    def error(preset: quantkit.PresetName) -> float:
        config = quantkit.QuantizationConfig(preset=preset, num_samples=64)
        (computed,) = run(quantkit.quantize(model, vectors(64), config).graph, {"data": data})
        return float(np.linalg.norm(computed - fp32))

    assert error("balanced") < error("none")


def with_output(graph: Graph) -> Graph:
    """A hidden layer's result is an output, too."""
    return Graph(graph.nodes, graph.inputs, (*graph.outputs, Tensor("relu1")), graph.params)


@pytest.mark.requires("vnni")
@pytest.mark.parametrize(
    ("change", "exclude", "quantizations"),
    [(with_output, (), 2), (lambda graph: graph, ("dense2",), 2), (lambda graph: graph, ("dense3",), 1)],
)
def test_what_others_read_stays_in_floats(
    change: Callable[[Graph], Graph], exclude: tuple[str, ...], quantizations: int
) -> None:
    quantized = planned(change(network()), exclude)
    assert operators(quantized).count("_contrib_quantize_v2") == quantizations
    data = vectors(20, seed=4)
    computed, expected = run(int8_graph(quantized), {"data": data})[0], simulated(quantized, data)
    np.testing.assert_allclose(computed, expected, rtol=0, atol=0.03 * np.abs(expected).max())


@pytest.mark.requires("vnni")
def test_a_layer_returned_to_fp32_reads_floats() -> None:
    quantized = planned(network())
    mixed = kept_in_fp32(quantized, {quantized.int8_layers[2].node.name})
    assert operators(mixed).count("_contrib_quantize_v2") == 2
    data = vectors(20, seed=4)
    computed, expected = run(int8_graph(mixed), {"data": data})[0], simulated(mixed, data)
    np.testing.assert_allclose(computed, expected, rtol=0, atol=0.03 * np.abs(expected).max())


def test_an_engine_without_the_kernel_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    quantized = planned(network())
    monkeypatch.setattr(capabilities, "release", lambda: (1, 6, 0))
    with pytest.raises(ModelError, match="has no INT8 dense layer that hands on integers; use quantkit"):
        symbol_of(int8_graph(quantized))
    assert operators(planned(network())).count("_contrib_quantize_v2") == 4


@pytest.mark.requires("vnni")
def test_layers_over_the_last_axis_hand_on_integers_too() -> None:
    b = Builder()
    data = Tensor("data")
    for number, (features, units) in enumerate(pairwise((5, 16, 12, 7))):
        weight, bias = b.param(f"w{number}", b.random.normal(size=(units, features))), b.random.normal(size=units)
        bias = b.param(f"b{number}", bias)
        data = b.op("FullyConnected", f"dense{number}", data, weight, bias, num_hidden=units, flatten=False)
        data = b.relu(f"relu{number}", data) if number < 2 else data
    graph = Graph(tuple(b.nodes), ("data",), (data,), b.params)
    model = quantkit.load_model(symbol_of(graph), params=graph.params, input_shape=(6, 5))
    sequences = np.random.default_rng(5).normal(size=(64, 6, 5)).astype(np.float32)
    quantized = quantkit.quantize(model, sequences, quantkit.QuantizationConfig(preset="none"))
    middle = [node.op for node in quantized.graph.nodes][2:5]
    assert middle == ["_sg_mkldnn_fully_connected"] * 3
    (fp32,), (computed,) = run(graph, {"data": sequences}), run(quantized.graph, {"data": sequences})
    assert np.linalg.norm(computed - fp32) < 0.05 * np.linalg.norm(fp32)
