"""The ranges of LSTM layers' states, against the whole network with each of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.benchmark.suites.suite import Recurrent
from quantkit.calibration.ranges import Range
from quantkit.fusion.fuse import Fused
from quantkit.ir.graph import Graph
from quantkit.progress import silent
from quantkit.quantization.algorithms.apply import apply_algorithms
from quantkit.quantization.algorithms.state_range import FACTORS, with_state_ranges
from quantkit.quantization.ptq_config import PTQConfig
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.simulation.simulator import SideBySide, int8_network
from tests.initial_states import begun_network
from tests.networks import DATA, Builder
from tests.quantization.algorithms.networks import planned
from tests.quantization.recurrent_networks import quantized
from tests.sequences import FEATURES, STEPS, sequence_network, sequences


def factor(before: QuantizedGraph, after: QuantizedGraph, number: int = 0) -> float:
    """By how much the range of a layer's state has become wider."""
    state = before.int8_lstms[number].node.output
    return after.form(state).range.largest / before.form(state).range.largest


def error(fused: Fused, network: QuantizedGraph, data: np.ndarray) -> float:
    """Of the first layer's results."""
    both = SideBySide(fused.graph, int8_network(network), data)
    result = network.int8_lstms[0].node.output
    next(node for node in both.run() if node.output == result)
    return float(np.square(both.quantized[result] - both.exact[result]).sum())


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("size", [0.1, 1.0, 8.0])
def test_the_range_with_the_least_error_is_taken(
    size: float, begun: bool, engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = Recurrent(layers=1, steps=STEPS, inputs=FEATURES, hidden=8)
    graph: Graph = begun_network(form) if begun else sequence_network("NTC")
    data = np.float32(size) * sequences(8, tokens=False)
    fused, network = quantized(monkeypatch, graph, data)
    state, errors = network.int8_lstms[0].node.output, []
    for each in FACTORS:
        old = network.form(state)
        wider = replace(old, range=Range(each * old.range.low, each * old.range.high))
        forms = {**network.plan.tensors, state: wider}
        errors.append(error(fused, replace(network, plan=replace(network.plan, tensors=forms)), data))
    found = with_state_ranges(network, data)
    assert factor(network, found) == pytest.approx(FACTORS[int(np.argmin(errors))])
    assert found.graph is network.graph


def test_large_data_make_for_wide_ranges_and_small_data_for_narrow_ones(
    engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for size in (0.1, 8.0):
        data = np.float32(size) * sequences(8, tokens=False)
        _, network = quantized(monkeypatch, sequence_network("NTC"), data)
        found[size] = factor(network, with_state_ranges(network, data))
    assert found[0.1] == 1
    assert found[8.0] > 1


@pytest.mark.parametrize("rounding", [False, True])
def test_ranges_are_chosen_with_the_rounding_of_weights(
    rounding: bool, engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = 8 * sequences(8, tokens=False)
    fused, network = quantized(monkeypatch, sequence_network("NTC"), data)
    algorithms = PTQConfig(rounding=rounding, bias=True)
    adjusted = apply_algorithms(network, fused.original, [data], "minmax", algorithms, silent).network
    assert (factor(network, adjusted) > 1) == rounding


def test_networks_without_lstm_layers_stay_as_they_are(engine: None) -> None:
    b = Builder()
    data = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    fused, plan = planned(b.graph(b.dense("dense", DATA, 6, 4)), data)
    network = QuantizedGraph(fused.graph, plan)
    assert with_state_ranges(network, data) is network
