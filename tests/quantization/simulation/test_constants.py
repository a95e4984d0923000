"""What depends on parameters alone, computed once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.graph import Tensor
from quantkit.progress import silent
from quantkit.quantization.algorithms.apply import apply_algorithms
from quantkit.quantization.ptq_config import PRESETS
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.simulation.constants import with_constants_folded
from tests.networks import DATA, Builder, images, residual_v1
from tests.quantization.algorithms.networks import computed_weights, planned

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
