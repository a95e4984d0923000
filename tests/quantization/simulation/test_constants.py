"""What depends on parameters alone, computed once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.graph import Graph, Tensor
from quantkit.progress import silent
from quantkit.quantization.algorithms.apply import apply_algorithms
from quantkit.quantization.ptq_config import PRESETS
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.simulation.constants import batch_constants, with_constants_folded
from quantkit.quantization.simulation.simulator import SideBySide, int8_network
from tests.initial_states import encoder_and_decoder
from tests.networks import DATA, Builder, images, residual_v1
from tests.quantization.algorithms.networks import computed_weights, planned
from tests.sequences import FEATURES, STEPS, sequence_network, sequences

pytestmark = pytest.mark.usefixtures("engine")


def test_the_network_computes_what_it_did() -> None:
    graph = computed_weights()
    folded = with_constants_folded(graph)
    assert {node.name for node in graph.nodes} - {node.name for node in folded.nodes} == {"parts", "ones"}
    for before, after in zip(run(graph, {"data": images()}), run(folded, {"data": images()})):
        np.testing.assert_array_equal(after, before)


def test_a_constant_that_the_network_puts_out() -> None:
    graph = computed_weights()
    graph = replace(graph, outputs=(*graph.outputs, Tensor("ones")))
    np.testing.assert_array_equal(run(with_constants_folded(graph), {"data": images()})[1], np.ones((1, 8, 1, 1)))


def test_where_there_is_nothing_to_fold() -> None:
    graph = residual_v1()
    assert with_constants_folded(graph) is graph


def test_recovery_of_a_network_with_computed_weights() -> None:
    fused, plan = planned(computed_weights(), images())
    found = apply_algorithms(
        QuantizedGraph(fused.graph, plan), fused.original, [images()], "minmax", PRESETS["balanced"], silent
    )
    assert [node.name for node in found.network.graph.nodes] == [node.name for node in fused.graph.nodes]
    before, after = (run(float_graph(graph), {"data": images()})[0] for graph in (fused.graph, found.network.graph))
    np.testing.assert_allclose(after, before, atol=0.1 * np.abs(before).max())
    assert np.any(after != before)


def test_parts_of_what_the_input_reaches_keep_their_names() -> None:
    b = Builder()
    b.op("SliceChannel", "split", b.conv("conv", DATA, 3, 8), num_outputs=2, axis=1)
    shifted = b.op("broadcast_add", "shifted", Tensor("split", 1), b.op("_ones", "ones", shape=(1, 4, 1, 1)))
    graph = b.graph(shifted)
    folded = with_constants_folded(graph)
    assert folded.by_name["shifted"].inputs == (Tensor("split", 1), Tensor("ones"))
    np.testing.assert_array_equal(run(folded, {"data": images()})[0], run(graph, {"data": images()})[0])


def unrolled() -> Graph:
    """A recurrent cell step by step, from a state of zero whose batch is left open, with the same weights."""
    b = Builder()
    b.op("SliceChannel", "steps", DATA, num_outputs=STEPS, axis=1, squeeze_axis=True)
    of_input, of_state = b.param("input", b.random.normal(size=(8, FEATURES))), b.param("state", np.eye(8) / 2)
    state = b.op("_zeros", "begin", shape=(0, 8))
    for step in range(STEPS):
        entering = b.op("FullyConnected", f"i2h{step}", Tensor("steps", step), of_input, num_hidden=8, no_bias=True)
        kept = b.op("FullyConnected", f"h2h{step}", state, of_state, num_hidden=8, no_bias=True)
        added = b.op("elemwise_add", f"sum{step}", entering, kept)
        state = b.op("Activation", f"tanh{step}", added, act_type="tanh")
    return b.graph(b.dense("dense", state, 8, 3))


@pytest.mark.parametrize(
    "graph",
    [unrolled(), sequence_network("NTC", "ones"), sequence_network("NTC", final_states=True), encoder_and_decoder()],
    ids=["unrolled", "constant states", "final states", "encoder and decoder"],
)
def test_constants_of_an_open_batch(graph: Graph) -> None:
    # More than are run at once.
    data = sequences(11, tokens=False)
    fused, plan = planned(graph, data)
    assert with_constants_folded(fused.graph) is fused.graph
    network = QuantizedGraph(fused.graph, plan)
    found = apply_algorithms(network, fused.original, [data], "minmax", PRESETS["balanced"], silent).network
    both = SideBySide(fused.graph, int8_network(found), data)
    for _ in both.run():
        pass
    for tensor, values in zip(fused.graph.outputs, run(graph, {"data": data})):
        np.testing.assert_allclose(both.exact[tensor], values, atol=1e-5 * np.abs(values).max())
    scores = fused.graph.outputs[0]
    difference = np.abs(both.quantized[scores] - both.exact[scores])
    assert 0 < difference.max() < 0.1 * np.abs(both.exact[scores]).max()


def test_which_constants_have_a_value_for_each_image() -> None:
    b = Builder()
    begin = b.op("_ones", "begin", shape=(0, 3))
    closed, inner = b.op("_zeros", "closed", shape=(2, 3)), b.op("_zeros", "inner", shape=(2, 0, 3))
    graph = b.graph(
        begin, closed, inner, b.op("_zeros", "both", shape=(0, 0)), b.op("_arange", "range", start=0, stop=3)
    )
    (value,) = batch_constants(graph, 5).values()
    np.testing.assert_array_equal(value, np.ones((5, 3)))
    assert batch_constants(residual_v1(), 5) == {}
