"""Candidates against their definition, path by path."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quantkit.ir.fused_layer import fused_layer_of
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.mixed_precision.candidates import candidates
from quantkit.mixed_precision.kept_in_fp32 import kept_in_fp32
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.networks import fire, images, inverted_residual, residual_v1, residual_v2
from tests.quantization.algorithms.networks import planned
from tests.quantized import int8_names

pytestmark = pytest.mark.usefixtures("engine")


NETWORKS = {"v1": residual_v1(True), "v2": residual_v2(), "inverted": inverted_residual(), "fire": fire()}


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> tuple[Graph, QuantizationPlan]:
    fused, plan = planned(NETWORKS[request.param], images(6))
    return fused.graph, plan


def paths(graph: Graph, node: Node) -> Iterator[tuple[str, ...]]:
    """All ways from the network's input to a node."""
    read = [graph.by_name[tensor.node] for tensor in node.inputs if tensor.node in graph.by_name]
    if not read:
        yield (node.name,)
    for each in read:
        yield from ((*path, node.name) for path in paths(graph, each))


def branches(graph: Graph, plan: QuantizationPlan) -> set[frozenset[str]]:
    found = set()
    for node in graph.nodes:
        fused_layer = fused_layer_of(node)
        if (fused_layer is None or fused_layer.addition is None) and node.op not in ("elemwise_add", "Concat"):
            continue
        ways = list(paths(graph, node))
        shared = [name for name in ways[0][:-1] if all(name in way for way in ways)]
        inside = {name for way in ways for name in (way[way.index(shared[-1]) + 1 :] if shared else way)}
        found.add(frozenset(inside) & frozenset(int8_names(graph, plan)))
    return found


def test_single_layers_come_first_and_nothing_comes_twice(network: tuple[Graph, QuantizationPlan]) -> None:
    found = candidates(QuantizedGraph(*network))
    layers = int8_names(*network)
    assert [candidate.layers for candidate in found[: len(layers)]] == [frozenset({name}) for name in layers]
    assert len({candidate.layers for candidate in found}) == len(found)


def test_branches_are_what_lies_on_the_ways_from_the_fork(network: tuple[Graph, QuantizationPlan]) -> None:
    found = candidates(QuantizedGraph(*network))
    expected = branches(*network)
    assert expected
    assert expected <= {candidate.layers for candidate in found}
    joined = {candidate.layers for candidate in found if candidate.name.startswith("branches")}
    assert joined <= expected


def test_with_both_ends_in_fp32_a_tensor_is_never_rounded(network: tuple[Graph, QuantizationPlan]) -> None:
    graph, plan = network
    groups = [
        candidate for candidate in candidates(QuantizedGraph(graph, plan)) if candidate.name.endswith("what reads it")
    ]
    assert groups
    for group in groups:
        name = group.name.split(" and ")[0]
        lowered = int8_graph(kept_in_fp32(QuantizedGraph(graph, plan), group.layers))
        readers = [node for node in lowered.nodes if Tensor(name) in node.inputs]
        assert readers
        assert not any("quantize" in node.op for node in readers), group


def test_the_groups_of_a_fire_module() -> None:
    fused, plan = planned(fire(), images(6))
    found = {candidate.name: candidate.layers for candidate in candidates(QuantizedGraph(fused.graph, plan))}
    assert found["branches joined by max"] == {"left_relu", "right_relu"}
    assert found["squeeze_relu and what reads it"] == {"squeeze_relu", "left_relu", "right_relu"}
    assert found["left_relu and what reads it"] == {"left_relu", "right_relu", "last_relu"}
