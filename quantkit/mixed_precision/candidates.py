"""The candidates for FP32: single layers, and layers that belong together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quantkit.ir.fused_layer import fused_layer_of
from quantkit.ir.graph import Node, Tensor
from quantkit.ir.operators import ADDITIONS
from quantkit.quantization.quantized_graph import QuantizedGraph, has_weights


@dataclass(frozen=True)
class Candidate:
    """Layers that may return to FP32 together; ``name`` describes what they have in common."""

    name: str
    layers: frozenset[str]


def candidates(network: QuantizedGraph) -> tuple[Candidate, ...]:
    """All candidates of a network, each set of layers once.

    A single layer in FP32 avoids the rounding of its weights; its input and its output are still integers if
    the layers around it are INT8. A tensor is not rounded only if the layer that produces it and all that read
    it are FP32, hence the groups: the layers between a fork and the sum or concatenation that joins its branches,
    and the layers that produce and read a tensor (and those that pooling or concatenation connects to it).
    """
    by_layers: dict[frozenset[str], Candidate] = {}
    for candidate in (*_single(network), *_branches(network), *_ends(network)):
        by_layers.setdefault(candidate.layers, candidate)
    return tuple(by_layers.values())


def _single(network: QuantizedGraph) -> Iterator[Candidate]:
    for node in network.int8_weighted:
        yield Candidate(node.name, frozenset({node.name}))


def _branches(network: QuantizedGraph) -> Iterator[Candidate]:
    graph = network.graph
    layers = frozenset(node.name for node in network.int8_weighted)
    above: dict[str, frozenset[str]] = {}
    forced: dict[str, frozenset[str]] = {}
    order = {node.name: position for position, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        read = [tensor.node for tensor in node.inputs if tensor.node in order]
        above[node.name] = frozenset({node.name}).union(*(above[name] for name in read))
        # The node's dominators: the nodes on every path from the input to it.
        common = frozenset.intersection(*(forced[name] for name in read)) if read else frozenset()
        forced[node.name] = common | {node.name}
        if not _joins(node):
            continue
        fork = max(common, key=order.__getitem__, default=None)
        inside = {name for name in above[node.name] if name != fork and (fork is None or fork in above[name])}
        if between := layers & inside:
            yield Candidate(f"branches joined by {node.name}", between)


def _joins(node: Node) -> bool:
    fused_layer = fused_layer_of(node)
    return (fused_layer is not None and fused_layer.addition is not None) or node.op in ADDITIONS or node.op == "Concat"


def _ends(network: QuantizedGraph) -> Iterator[Candidate]:
    for node in network.int8_weighted:
        layers = _around(network, node.output)
        if len(layers) > 1:
            yield Candidate(f"{node.name} and what reads it", layers)


def _around(network: QuantizedGraph, tensor: Tensor) -> frozenset[str]:
    """The INT8 layers that produce or read a tensor, or one that INT8 operators without weights connect to it."""
    layers = set()
    seen: set[Tensor] = set()
    ahead = [tensor]
    while ahead:
        tensor = ahead.pop()
        seen.add(tensor)
        producer = network.graph.producer(tensor)
        for node in (*((producer,) if producer else ()), *network.graph.consumers.get(tensor, ())):
            if not network.is_int8(node):
                continue
            if has_weights(node):
                layers.add(node.name)
            else:
                ahead += {node.output, *node.inputs} - seen
    return frozenset(layers)
