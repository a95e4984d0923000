"""Both networks side by side: batches, shifted tensors, other networks."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.diagnosis.layers.walk import Comparison, channel_shifts
from quantkit.errors import ModelError
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.graph import Graph
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.progress import silent
from quantkit.quantization.algorithms.apply import apply_algorithms
from quantkit.quantization.ptq_config import PTQConfig
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.simulation.simulator import int8_network
from tests.networks import images, inverted_residual, residual_v1, residual_v2
from tests.quantization.algorithms.networks import computed_weights, planned
from tests.quantization.recurrent_networks import quantized
from tests.sequences import sequence_network, sequences

pytestmark = pytest.mark.usefixtures("int8_engine")

DATA = images(16, seed=3)


def compared(graph: Graph, algorithms: PTQConfig, batch: int, with_channel_shift: bool) -> Comparison:
    fused, plan = planned(graph, DATA)
    adjusted = apply_algorithms(QuantizedGraph(fused.graph, plan), fused.original, [DATA], "minmax", algorithms, silent)
    network = int8_network(QuantizedGraph(adjusted.network.graph, adjusted.network.plan))
    shifts = channel_shifts(fused.graph, network, DATA[:batch]) if with_channel_shift else {}
    comparison = Comparison(fused.graph, network, shifts)
    for start in range(0, len(DATA), batch):
        comparison.add(DATA[start : start + batch])
    return comparison


def test_the_same_whatever_the_batches() -> None:
    one, other = (compared(residual_v1(), PTQConfig(), size, False) for size in (16, 4))
    for name, sums in one.layers.items():
        other_sums = other.layers[name]
        assert other_sums.accumulated.result().sqnr == pytest.approx(sums.accumulated.result().sqnr, abs=1e-3)
        assert other_sums.own.result().sqnr == pytest.approx(sums.own.result().sqnr, abs=1e-3)
    for tensor, watch in one.tensors.items():
        assert other.tensors[tensor].use("", "mse", None) == watch.use("", "mse", None)


@pytest.mark.requires("vnni")
def test_the_outputs_are_those_of_the_engine() -> None:
    fused, plan = planned(residual_v2(), DATA)
    network = QuantizedGraph(fused.graph, plan)
    (exact,), (quantized,) = Comparison(fused.graph, int8_network(network)).add(DATA)
    np.testing.assert_allclose(exact, run(float_graph(fused.graph), {"data": DATA})[0], atol=1e-4)
    engine = run(int8_graph(network), {"data": DATA})[0]
    # Without VNNI the engine's own sums may saturate.
    assert np.abs(quantized - engine).max() < 0.2 * np.abs(engine - exact).max() + 0.01 * np.abs(exact).max()


@pytest.mark.parametrize("graph", [residual_v2(), inverted_residual()], ids=["v2", "inverted"])
def test_tensors_that_channel_shift_moved(graph: Graph) -> None:
    shifted = compared(graph, PTQConfig(channel_shift=True), 4, True)
    plain = compared(graph, PTQConfig(), 4, True)
    assert any(np.abs(shift).max() > 0.1 for shift in shifted.shifts.values())
    blind = compared(graph, PTQConfig(channel_shift=True), 4, False)
    for tensor, shift in shifted.shifts.items():
        name = tensor.node
        # Shifting makes ranges narrower, so the layer is no worse than without it.
        assert shifted.layers[name].own.result().sqnr > plain.layers[name].own.result().sqnr - 0.5
        use = shifted.tensors[tensor].use(name, "minmax", None)
        assert use.measured == pytest.approx(use.threshold, rel=0.05)
        if np.abs(shift).max() > 0.1:
            assert shifted.layers[name].accumulated.result().sqnr > blind.layers[name].accumulated.result().sqnr + 6


def test_only_int8_layers_are_compared() -> None:
    fused, plan = planned(residual_v1(), DATA, "conv1")
    comparison = Comparison(fused.graph, int8_network(QuantizedGraph(fused.graph, plan)))
    assert "relu1" not in comparison.layers
    assert {"relu0", "relu2", "dense"} <= comparison.layers.keys()


def test_another_network_is_refused_by_name() -> None:
    fused, plan = planned(residual_v1(), DATA)
    other, _ = planned(residual_v2(), DATA)
    with pytest.raises(ModelError, match="has no operator"):
        Comparison(other.graph, int8_network(QuantizedGraph(fused.graph, plan)))


def test_weights_that_are_computed_from_parameters() -> None:
    layers = compared(computed_weights(), PTQConfig(), 4, False).layers
    assert {"relu0", "relu2"} <= layers.keys()
    for sums in layers.values():
        assert 15 < sums.own.result().sqnr < 60


def test_the_error_of_lstm_layers_has_parts(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = sequences(8, tokens=False)
    fused, network = quantized(monkeypatch, sequence_network("NTC"), steps)
    comparison = Comparison(fused.graph, int8_network(network))
    comparison.add(steps)
    assert len(network.int8_lstms) == 2
    for lstm in network.int8_lstms:
        sums = comparison.layers[lstm.node.name]
        assert sums.weights is not None
        own = sums.own.result().sqnr
        assert own < min(sums.weights.result().sqnr, sums.tensors.result().sqnr) < 60
