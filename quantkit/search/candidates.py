"""What could be returned to FP32: single layers, and layers that belong together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quantkit.fusion.unit import unit_of
from quantkit.graph.graph import Graph, Node
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
    and the layers at the two ends of a tensor.
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
        if readers := frozenset(_readers(graph, plan, graph.by_name[name])):
            yield Candidate(f"{name} and what reads it", readers | {name})


def _readers(graph: Graph, plan: Plan, node: Node) -> Iterator[str]:
    """The INT8 layers that read a node's result, directly or through INT8 operators without weights."""
    for reader in graph.consumers.get(node.output, ()):
        if plan.decisions[reader.name].precision == "int8":
            if unit_of(reader) is not None:
                yield reader.name
            else:
                yield from _readers(graph, plan, reader)
