"""Layers alone, against the engine's integers and against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Optional

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.diagnosis.layers.layer import parts
from quantkit.ir.graph import Graph, Tensor
from quantkit.ir.recurrent_layer import Matrices, known_matrices
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.quantization.arithmetic import dequantize, quantize
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.simulation.simulator import Int8Network, float_results, int8_network
from tests.initial_states import begun_network, states_of
from tests.lowering.networks import NETWORKS
from tests.networks import DATA, Builder, images
from tests.quantization.algorithms.networks import planned
from tests.quantization.recurrent_networks import quantized
from tests.sequences import STACK, sequence_network, sequences


def network_of(graph: Graph, data: np.ndarray) -> tuple[Graph, Int8Network]:
    """The fused network, and its INT8 form read back from what was lowered."""
    fused, plan = planned(graph, data)
    return fused.graph, int8_network(QuantizedGraph(fused.graph, plan))


@pytest.mark.usefixtures("int8_engine")
@pytest.mark.requires("vnni")
@pytest.mark.parametrize("name", NETWORKS)
def test_each_layer_computes_the_integers_of_the_engine(name: str) -> None:
    data = images()
    _, network = network_of(NETWORKS[name](), data)
    values = engine_values(network.graph, network.network.plan, data)
    layers = [node for node in network.graph.nodes if network.is_layer(node)]
    assert layers
    for node in layers:
        (computed,) = network.results(node, values)
        form = network.network.plan.tensors.get(node.output)
        step = form.params.scale if form else np.abs(computed).max() * 1e-5
        difference = np.abs(computed - values[node.output]) / step
        # A sum on the edge between two integers may fall to either side.
        assert difference.max() < (2.01 if network.has_seven_bits(node.output) else 1.01), node.name
        assert (difference > 0.5).mean() < 0.01, node.name


def engine_values(graph: Graph, plan: QuantizationPlan, data: np.ndarray) -> dict[Tensor, np.ndarray]:
    """Every tensor that a node puts out, in real numbers, as the engine's INT8 network has it."""
    read = [tensor for tensor in graph.consumers if graph.producer(tensor) is not None]
    tensors = [*(node.output for node in graph.nodes), *read]
    with_all = Graph(graph.nodes, graph.inputs, tuple(dict.fromkeys((*graph.outputs, *tensors))), graph.params)
    lowered = int8_graph(QuantizedGraph(with_all, plan))
    return {DATA: data, **dict(zip(lowered.outputs, run(lowered, {"data": data})))}


def test_the_parts_of_an_error_against_numpy() -> None:
    b = Builder()
    graph = b.graph(b.conv("conv", DATA, 3, 8, kernel=1))
    data = images()
    reference, network = network_of(graph, data)
    weight, bias = graph.params["conv_weight"][:, :, 0, 0], graph.params["conv_bias"]
    largest = np.abs(weight).max(axis=1)
    coarse = np.clip(np.rint(weight * (np.float32(127.5) / largest)[:, None]), -128, 127) * largest[:, None] / 127.5
    given, put = (network.network.form(t).params for t in (DATA, Tensor("conv")))

    def through(values: np.ndarray, params: object) -> np.ndarray:
        return dequantize(quantize(values, params), params)  # type: ignore[arg-type]

    def product(values: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        return np.einsum("oc,nchw->nohw", matrix, values) + bias[:, None, None]

    outputs = parts(network, reference, network.graph.nodes[0], {DATA: data}, {})
    assert outputs.weights is not None
    np.testing.assert_allclose(outputs.weights, product(data, coarse), atol=1e-5)
    close = 1.01 * put.scale
    for values, expected in (
        (outputs.own, through(product(through(data, given), coarse), put)),
        (outputs.tensors, through(product(through(data, given), weight), put)),
    ):
        assert np.abs(values - expected).max() < close
        assert (np.abs(values - expected) > 0.5 * put.scale).mean() < 1e-3


def test_a_shift_of_tensors_is_taken_out_again() -> None:
    """The same layer, its input and output shifted by what its bias takes up."""
    b = Builder()
    graph = b.graph(b.conv("conv", DATA, 3, 8, kernel=1))
    data = images()
    reference, network = network_of(graph, data)
    node = network.graph.nodes[0]
    shift_in, shift_out = (np.linspace(-0.3, 0.4, count).reshape(1, -1, 1, 1).astype(np.float32) for count in (3, 8))
    effect = np.einsum("oc,c->o", network.weights["conv"].real[:, :, 0, 0], shift_in.ravel())
    params = dict(network.graph.params)
    params["conv_bias"] = params["conv_bias"] - effect + shift_out.ravel()
    graph = Graph(network.graph.nodes, ("data",), network.graph.outputs, params)
    moved = replace(network, network=replace(network.network, graph=graph))
    plain = parts(network, reference, node, {DATA: data}, {})
    shifted = parts(moved, reference, node, {DATA: data}, {DATA: shift_in, Tensor("conv"): shift_out})
    assert plain.weights is not None
    assert shifted.weights is not None
    np.testing.assert_allclose(shifted.weights, plain.weights, atol=1e-5)
    exact = float_results(reference, reference.nodes[0], {DATA: data})[0]
    for one, other in ((plain.own, shifted.own), (plain.tensors, shifted.tensors)):
        errors = [np.square(each - exact).mean() for each in (one, other)]
        assert errors[1] == pytest.approx(errors[0], rel=0.3)
    step = network.network.form(Tensor("conv")).params.scale
    for each in (shifted.own, shifted.tensors):
        integers = (each + shift_out) / step
        np.testing.assert_allclose(integers, np.rint(integers), atol=1e-3)


def lstm_outputs(
    data: np.ndarray,
    weights: Matrices,
    rounded: Callable[[np.ndarray], np.ndarray],
    initial: Optional[Sequence[np.ndarray]] = None,
) -> np.ndarray:
    """What an LSTM layer puts out by definition, its state rounded before the first and after every step."""
    zeros = np.zeros((len(data), weights.of_state.shape[1]))
    state, cell = initial or (zeros, zeros)
    state, results = rounded(state), []
    for step in range(data.shape[1]):
        gates = data[:, step] @ weights.of_input.T + state @ weights.of_state.T
        entering, forgetting, new, leaving = np.split(gates + weights.input_bias + weights.state_bias, 4, axis=1)
        cell = cell / (1 + np.exp(-forgetting)) + np.tanh(new) / (1 + np.exp(-entering))
        state = rounded(np.tanh(cell) / (1 + np.exp(-leaving)))
        results.append(state)
    return np.stack(results, axis=1)


@pytest.mark.parametrize("given", [False, True], ids=["zero", "given"])
def test_the_parts_of_an_lstm_layers_error(given: bool, engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    data, form = sequences(12, tokens=False), replace(STACK, layers=1)
    graph = begun_network(form) if given else sequence_network("NTC")
    fused, plan = quantized(monkeypatch, graph, data)
    lstm, network = plan.int8_lstms[0], int8_network(plan)
    begun = [state[0] for state in states_of(graph, form, data)] if given else None
    states = {tensor: state[:, None].astype(np.float32) for tensor, state in zip(lstm.states, begun or ())}
    outputs = parts(network, fused.graph, lstm.node, {lstm.data: data, **states}, {})
    exact, integers = known_matrices(fused.graph, lstm), network.lstm_weights[lstm.node.name]
    given, put = (plan.form(tensor).params for tensor in (lstm.data, lstm.node.output))
    steps = integers.scale[:, None]
    coarse = replace(
        exact, of_input=integers.of_input * steps * (put.scale / given.scale), of_state=integers.of_state * steps
    )

    def through(values: np.ndarray) -> np.ndarray:
        return dequantize(quantize(values.astype(np.float32), put), put)

    assert outputs.weights is not None
    np.testing.assert_allclose(outputs.weights, lstm_outputs(data, coarse, np.asarray, begun), atol=1e-5)
    read = dequantize(quantize(data, given), given)
    assert np.abs(outputs.tensors - lstm_outputs(read, exact, through, begun)).max() < 1.01 * put.scale
    assert np.abs(outputs.own - lstm_outputs(read, coarse, through, begun)).max() < 1.01 * put.scale
    errors = [np.square(each - lstm_outputs(data, exact, np.asarray, begun)).mean() for each in outputs[:3]]
    assert errors[0] > 1.05 * errors[1] and errors[0] > 1.05 * errors[2]
