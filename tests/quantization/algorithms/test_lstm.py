"""INT8 LSTM layers adapted through time, against the definition of an LSTM and on sequences that were not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from quantkit.benchmark.suites.suite import Recurrent
from quantkit.calibration.ranges import Range
from quantkit.host.pair_sums import may_overflow
from quantkit.ir.recurrent_layer import Matrices, known_matrices
from quantkit.progress import silent
from quantkit.quantization.algorithms.lstm import Int8Lstm, adapted_lstm, gates, read_states
from quantkit.quantization.algorithms.reconstruction import reconstruct
from quantkit.quantization.arithmetic import dequantize, quantize
from quantkit.quantization.layer_weights import layer_integers
from quantkit.quantization.plan import TensorQuantization
from quantkit.quantization.ptq_config import PTQConfig
from quantkit.quantization.recurrent_weights import (
    RecurrentIntegers,
    lstm_integers,
    real_matrices,
    recurrent_integers,
)
from quantkit.quantization.simulation.simulator import SideBySide, int8_network
from tests.initial_states import begun_network
from tests.quantization.recurrent_networks import quantized
from tests.quantization.test_recurrent_weights import engine_sums_overflow
from tests.recurrent import outputs_and_final_states
from tests.sequences import FEATURES as SEQUENCE_FEATURES
from tests.sequences import STEPS as SEQUENCE_STEPS
from tests.sequences import sequence_network, sequences

FEATURES, HIDDEN, STEPS = 16, 8, 12
STATE = TensorQuantization(Range(-0.9, 0.9), "int8").params
FORMS = {"int8": TensorQuantization(Range(-3.0, 3.0), "int8"), "uint8": TensorQuantization(Range(0.0, 3.0), "uint8")}


def weights() -> Matrices:
    random = np.random.default_rng(3)
    shapes = ((4 * HIDDEN, FEATURES), (4 * HIDDEN, HIDDEN), (4 * HIDDEN,), (4 * HIDDEN,))
    return Matrices(*(random.normal(0, 0.6, shape).astype(np.float32) for shape in shapes))


def data(count: int, dtype: str, seed: int) -> np.ndarray:
    """Sequences whose features go together."""
    random = np.random.default_rng(seed)
    mixed = random.normal(size=(count, STEPS, 3)) @ np.random.default_rng(9).normal(size=(3, FEATURES)) / 2
    return (np.abs(mixed) if dtype == "uint8" else mixed).astype(np.float32)


def initial_states(count: int) -> tuple[np.ndarray, ...]:
    """Of layer and cells, batch first."""
    random = np.random.default_rng(6)
    return tuple(random.uniform(-0.85, 0.85, (count, 1, HIDDEN)).astype(np.float32) for _ in range(2))


def exact_results(inputs: np.ndarray, initial: Sequence[np.ndarray] = ()) -> np.ndarray:
    """The layer by definition."""
    stack = Recurrent(layers=1, steps=STEPS, inputs=FEATURES, hidden=HIDDEN)
    begun = [state.swapaxes(0, 1) for state in initial] or None
    results = outputs_and_final_states(stack, weights().flat, inputs.swapaxes(0, 1), begun)[0]
    return results.swapaxes(0, 1).astype(np.float32)


def exact_gates(inputs: np.ndarray, initial: Sequence[np.ndarray] = ()) -> np.ndarray:
    return gates(weights(), inputs, read_states(exact_results(inputs, initial), initial))


def int8_layer(dtype: str, initial: Sequence[np.ndarray] = ()) -> Int8Lstm:
    form = FORMS[dtype]
    return Int8Lstm(weights(), recurrent_integers(weights(), form.params, STATE), form, STATE, initial)


@pytest.mark.parametrize("initial", [(), initial_states(3)], ids=["zero", "given"])
def test_the_gates_are_those_that_the_results_follow_from(initial: Sequence[np.ndarray]) -> None:
    inputs = data(3, "int8", 1)
    results = exact_results(inputs, initial)
    cell = initial[1][:, 0] if initial else np.zeros((3, HIDDEN))
    for step, before in enumerate(exact_gates(inputs, initial).swapaxes(0, 1)):
        enter, forget, new, leave = np.split(before.astype(np.float64), 4, axis=1)
        cell = cell / (1 + np.exp(-forget)) + np.tanh(new) / (1 + np.exp(-enter))
        np.testing.assert_allclose(np.tanh(cell) / (1 + np.exp(-leave)), results[:, step], atol=1e-5)


@pytest.mark.parametrize("dtype", FORMS)
def test_jointly_rounded_weights_change_the_gates_less_on_other_sequences(dtype: str) -> None:
    layer, seen, other = int8_layer(dtype), data(40, dtype, 1), data(40, dtype, 2)
    wanted = exact_gates(seen)
    states = read_states(exact_results(other))

    def noise(integers: RecurrentIntegers) -> float:
        real = real_matrices(integers, weights(), layer.form.params, STATE)
        error = gates(real, other, states) - gates(weights(), other, states)
        return float(error.var(axis=(0, 1)).sum())

    rounded = adapted_lstm(layer, wanted, seen, PTQConfig(rounding=True))
    assert noise(rounded.integers) < 0.7 * noise(layer.integers)


@pytest.mark.parametrize("dtype", FORMS)
def test_integers_rounded_jointly_do_not_overflow_and_can_be_read_off_the_weights(dtype: str) -> None:
    layer, seen = int8_layer(dtype), data(40, dtype, 1)
    wanted = exact_gates(seen)
    adapted = adapted_lstm(layer, wanted, seen, PTQConfig(rounding=True))
    integers = adapted.integers
    assert not np.array_equal(integers.of_input, layer.integers.of_input)
    np.testing.assert_array_equal(integers.scale, layer.integers.scale)
    assert not engine_sums_overflow(integers, layer.form.params)
    again = recurrent_integers(adapted.weights, layer.form.params, STATE, integers.scale)
    np.testing.assert_array_equal(again.of_input, integers.of_input)
    np.testing.assert_array_equal(again.of_state, integers.of_state)


@pytest.mark.parametrize("initial", [(), initial_states(40)], ids=["zero", "given"])
@pytest.mark.parametrize("dtype", FORMS)
def test_corrected_biases_leave_no_mean_error_although_the_states_change_with_them(
    dtype: str, initial: Sequence[np.ndarray]
) -> None:
    inputs = data(40, dtype, 1)
    wanted = exact_gates(inputs, initial)

    def mean_errors(layer: Int8Lstm) -> np.ndarray:
        read = dequantize(quantize(inputs, layer.form.params), layer.form.params)
        real = real_matrices(layer.integers, layer.weights, layer.form.params, STATE)
        begun = [dequantize(quantize(state, STATE), STATE) for state in initial]
        states = read_states(layer.run(inputs)[0], begun)
        return np.asarray((wanted - gates(real, read, states)).mean(axis=(0, 1)))

    off = np.random.default_rng(4).normal(0, 0.2, 4 * HIDDEN).astype(np.float32)
    layer = int8_layer(dtype, initial)
    layer = replace(layer, weights=replace(layer.weights, input_bias=layer.weights.input_bias + off))
    corrected = adapted_lstm(layer, wanted, inputs, PTQConfig(bias=True))
    assert np.abs(mean_errors(corrected)).max() < 0.05 * np.abs(mean_errors(layer)).max()
    assert corrected.integers is layer.integers


def test_without_rounding_and_biases_nothing_changes() -> None:
    layer, inputs = int8_layer("int8"), data(4, "int8", 1)
    wanted = exact_gates(inputs)
    assert adapted_lstm(layer, wanted, inputs, PTQConfig(channel_shift=True)) is layer


def test_layers_of_a_network_are_adapted_one_after_the_other(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, algorithms = sequences(40, tokens=False), PTQConfig(rounding=True, bias=True)
    fused, network = quantized(monkeypatch, sequence_network("NTC"), seen)
    adapted = reconstruct(network, seen, algorithms, silent)
    _, second = network.int8_lstms
    assert adapted.weight_scales.keys() == {node.name for node in network.int8_weighted}
    both = SideBySide(fused.graph, int8_network(adapted), seen)
    next(node for node in both.run() if node.name == second.node.name)
    exact, read = both.exact[second.data], both.quantized[second.data]
    own = known_matrices(network.graph, second)
    forms = network.form(second.data), network.form(second.node.output).params
    layer = Int8Lstm(own, lstm_integers(network, second), *forms)
    states = read_states(both.exact[second.node.output])
    wanted = adapted_lstm(layer, gates(own, exact, states), read, algorithms)
    np.testing.assert_array_equal(adapted.graph.params[second.parameters.node], wanted.weights.flat)
    found = lstm_integers(adapted, second)
    np.testing.assert_array_equal(found.of_state, wanted.integers.of_state)
    assert not np.array_equal(found.of_state, layer.integers.of_state)
    np.testing.assert_allclose(both.quantized[second.node.output], wanted.run(read)[0], atol=1e-6)


def test_dense_layers_beside_lstm_layers_are_rounded_jointly_without_overflow(
    engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = sequences(40, tokens=False)
    _, network = quantized(monkeypatch, sequence_network("NTC"), seen)
    adapted = reconstruct(network, seen, PTQConfig(rounding=True), silent)
    (dense,) = network.int8_layers
    nearest, found = (
        layer_integers(each.graph.params[dense.weight.node], each.weight_rounding(dense.node))
        for each in (network, adapted)
    )
    assert not may_overflow(found[0])
    assert not np.array_equal(found[0], nearest[0])
    np.testing.assert_array_equal(found[1], nearest[1])
    np.testing.assert_array_equal(found[0] * found[1][:, None], adapted.graph.params[dense.weight.node])


def test_layers_are_adapted_from_the_states_that_they_begin_with(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    form = Recurrent(layers=1, steps=SEQUENCE_STEPS, inputs=SEQUENCE_FEATURES, hidden=HIDDEN)
    seen, algorithms = sequences(40, tokens=False), PTQConfig(rounding=True, bias=True)
    fused, network = quantized(monkeypatch, begun_network(form, outputs=(0, 2)), seen)
    adapted = reconstruct(network, seen, algorithms, silent)
    (lstm,) = network.int8_lstms
    both = SideBySide(fused.graph, int8_network(adapted), seen)
    next(node for node in both.run() if node.name == lstm.node.name)
    begun = [both.quantized[state] for state in lstm.states]
    own, forms = known_matrices(network.graph, lstm), (network.form(lstm.data), network.form(lstm.node.output).params)
    layer = Int8Lstm(own, lstm_integers(network, lstm), *forms, begun)
    states = read_states(both.exact[lstm.node.output], [both.exact[state] for state in lstm.states])
    wanted = adapted_lstm(layer, gates(own, seen, states), seen, algorithms)
    np.testing.assert_array_equal(adapted.graph.params[lstm.parameters.node], wanted.weights.flat)
    np.testing.assert_allclose(both.quantized[lstm.final_cell], wanted.run(seen)[1], atol=1e-6)
