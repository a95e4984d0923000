"""What could be returned to FP32: single layers, and layers that belong together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quantkit.fusion.unit import unit_of
from quantkit.graph.graph import Graph, Node, Tensor
from quantkit.graph.operators import ADDITIONS
from quantkit.quantization.mixed import int8_layers
from quantkit.quantization.plan import Plan


@dataclass(frozen=True)
class Candidate:
    """Layers that may return to FP32 together; ``name`` says what they have in common."""

    name: str
    layers: frozenset[str]


def candidates(graph: Graph, plan: Plan) -> tuple[Candidate, ...]:
    """All candidates of a network, none with the same layers as one before it.

    Alone in FP32, a layer is spared the rounding of its weights; its input and its output are still integers where
    the layers around it are INT8. A tensor stays unrounded only where the layer that produces it and all that read
    it are FP32, hence the groups: the layers between a fork and the sum or concatenation that joins its branches,
    and the layers that produce and read a tensor (and those that pooling or concatenation ties to it).
    """
    found: dict[frozenset[str], Candidate] = {}
    for candidate in (*_single(graph, plan), *_branches(graph, plan), *_ends(graph, plan)):
        found.setdefault(candidate.layers, candidate)
    return tuple(found.values())


def _single(graph: Graph, plan: Plan) -> Iterator[Candidate]:
    for name in int8_layers(graph, plan):
        yield Candidate(name, frozenset({name}))


def _branches(graph: Graph, plan: Plan) -> Iterator[Candidate]:
    layers = frozenset(int8_layers(graph, plan))
    above: dict[str, frozenset[str]] = {}
    forced: dict[str, frozenset[str]] = {}
    order = {node.name: position for position, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        read = [tensor.node for tensor in node.inputs if tensor.node in order]
        above[node.name] = frozenset({node.name}).union(*(above[name] for name in read))
        # What every way from the input to here leads through: the node's dominators.
        common = frozenset.intersection(*(forced[name] for name in read)) if read else frozenset()
        forced[node.name] = common | {node.name}
        if not _joins(node):
            continue
        fork = max(common, key=order.__getitem__, default=None)
        inside = {name for name in above[node.name] if name != fork and (fork is None or fork in above[name])}
        if between := layers & inside:
            yield Candidate(f"branches joined by {node.name}", between)


def _joins(node: Node) -> bool:
    unit = unit_of(node)
    return (unit is not None and unit.addition is not None) or node.op in ADDITIONS or node.op.lower() == "concat"


def _ends(graph: Graph, plan: Plan) -> Iterator[Candidate]:
    for name in int8_layers(graph, plan):
        layers = _around(graph, plan, graph.by_name[name].output)
        if len(layers) > 1:
            yield Candidate(f"{name} and what reads it", layers)


def _around(graph: Graph, plan: Plan, tensor: Tensor) -> frozenset[str]:
    """The INT8 layers that produce or read a tensor, or another that INT8 operators without weights tie to it."""
    layers = set()
    seen: set[Tensor] = set()
    ahead = [tensor]
    while ahead:
        tensor = ahead.pop()
        seen.add(tensor)
        producer = graph.producer(tensor)
        for node in (*((producer,) if producer else ()), *graph.consumers.get(tensor, ())):
            if plan.decisions[node.name].precision == "fp32":
                continue
            if unit_of(node) is not None:
                layers.add(node.name)
            else:
                ahead += {node.output, *node.inputs} - seen
    return frozenset(layers)
