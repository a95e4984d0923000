"""A fused network as an FP32 symbol that stock MXNet runs with its fused kernels."""

from __future__ import annotations

from dataclasses import replace

from quantkit.emission.layers import CONVOLUTION, DENSE, fused_layer
from quantkit.errors import ModelError
from quantkit.fusion.unit import FUSED, form_problem, has_constant_weights, unit_of
from quantkit.graph.graph import Graph, Node
from quantkit.graph.operators import integers


def float_graph(graph: Graph) -> Graph:
    """The fused graph with each layer as the engine's FP32 fused operator; names and outputs stay."""
    return replace(graph, nodes=tuple(float_node(graph, node) for node in graph.nodes))


def float_node(graph: Graph, node: Node) -> Node:
    """One node of a fused graph in its FP32 form."""
    unit = unit_of(node)
    if unit is None or not has_constant_weights(graph.params, unit) or not _has_kernel(node, unit.is_convolution):
        return node
    return fused_layer(unit, node.name, node.inputs, {})


def fused_graph(graph: Graph) -> Graph:
    """The fused graph of which ``float_graph`` makes this one.

    Raises:
        ModelError: a layer is not of the form that ``float_graph`` gives layers.
    """
    return replace(graph, nodes=tuple(map(_fused_node, graph.nodes)))


def _fused_node(node: Node) -> Node:
    if node.op in (CONVOLUTION, DENSE) and node.body is not None:
        core, *rest = node.body.nodes
        if core.op not in FUSED:
            raise ModelError(f"the fused layer {node.name!r} does not begin with a convolution or a dense layer")
        fused = replace(node, op=FUSED[core.op], attrs={})
        node = fused if rest else replace(node, op=core.op, attrs=core.attrs, body=None)
    unit = unit_of(node)
    if unit is not None and (problem := form_problem(unit)):
        raise ModelError(f"the layer {node.name!r} {problem}")
    return node


def _has_kernel(node: Node, is_convolution: bool) -> bool:
    # Unfused 1-D convolutions stay what they are: the fused operator takes 2-D and 3-D kernels only.
    return not is_convolution or node.body is not None or len(integers(node, "kernel")) > 1
