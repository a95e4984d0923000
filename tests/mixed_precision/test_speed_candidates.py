from __future__ import annotations

import pytest

from quantkit.ir.graph import Graph
from quantkit.mixed_precision.candidates import candidates
from quantkit.mixed_precision.speed_candidates import speed_candidates
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import fire, images, inverted_residual, residual_v1
from tests.quantization.algorithms.networks import planned

pytestmark = pytest.mark.usefixtures("engine")

NETWORKS = {"v1": residual_v1(True), "inverted": inverted_residual(), "fire": fire()}


def quantized(graph: Graph, *exclude: str) -> QuantizedGraph:
    fused, plan = planned(graph, images(6), *exclude)
    return QuantizedGraph(fused.graph, plan)


@pytest.mark.parametrize("name", NETWORKS)
def test_they_begin_with_the_whole_and_hold_each_set_once(name: str) -> None:
    network = quantized(NETWORKS[name])
    layers = [layer.node.name for layer in network.int8_layers]
    sets = [candidate.layers for candidate in speed_candidates(network)]
    assert sets[0] == frozenset(layers)
    assert [len(each) for each in sets] == sorted(map(len, sets), reverse=True)
    assert len(set(sets)) == len(sets)
    assert set(sets) >= {candidate.layers for candidate in candidates(network)}
    middle = len(layers) // 2
    assert {frozenset(layers[:middle]), frozenset(layers[middle:])} <= set(sets)


def test_layers_of_a_kind_go_together() -> None:
    network = quantized(inverted_residual())
    kinds = {each.name: each.layers for each in speed_candidates(network) if each.name.startswith("every ")}
    grouped = {layer.node.name for layer in network.int8_layers if layer.groups > 1}
    assert grouped
    assert {name for name, layers in kinds.items() if layers & grouped} == {"every 3x3 grouped Convolution"}
    assert kinds["every 3x3 grouped Convolution"] == grouped
    pointwise = {
        layer.node.name
        for layer in network.int8_layers
        if layer.is_convolution and layer.groups == 1 and network.graph.params[layer.weight.node].shape[2:] == (1, 1)
    }
    assert kinds["every 1x1 Convolution"] == pointwise != set()


def test_without_int8_there_is_none() -> None:
    assert speed_candidates(quantized(residual_v1(True), "*")) == ()
