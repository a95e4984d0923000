"""A fused network as an FP32 symbol that stock MXNet runs with its fused kernels."""

from __future__ import annotations

from dataclasses import replace

from quantkit.errors import ModelError
from quantkit.fusion.engine_operators import CONVOLUTION, DENSE, engine_operator
from quantkit.ir.fused_layer import FUSED, form_problem, fused_layer_of, has_constant_weights
from quantkit.ir.graph import Graph, Node
from quantkit.ir.operators import integers


def float_graph(graph: Graph) -> Graph:
    """The fused graph with each layer as the engine's FP32 fused operator; names and outputs do not change."""
    return replace(graph, nodes=tuple(float_node(graph, node) for node in graph.nodes))


def float_node(graph: Graph, node: Node) -> Node:
    """One node of a fused graph in its FP32 form."""
    layer = fused_layer_of(node)
    if layer is None or not has_constant_weights(graph.params, layer) or not _has_kernel(node, layer.is_convolution):
        return node
    return engine_operator(layer, node.name, node.inputs, {})


def fused_graph(graph: Graph) -> Graph:
    """The inverse of ``float_graph``.

    Raises:
        ModelError: a layer does not have the form that ``float_graph`` gives it.
    """
    return replace(graph, nodes=tuple(map(_fused_node, graph.nodes)))


def _fused_node(node: Node) -> Node:
    if node.op in (CONVOLUTION, DENSE) and node.body is not None:
        core, *rest = node.body.nodes
        if core.op not in FUSED:
            raise ModelError(f"the fused layer {node.name!r} does not begin with a convolution or a dense layer")
        fused = replace(node, op=FUSED[core.op], attrs={})
        node = fused if rest else replace(node, op=core.op, attrs=core.attrs, body=None)
    layer = fused_layer_of(node)
    if layer is not None and (problem := form_problem(layer)):
        raise ModelError(f"the layer {node.name!r} {problem}")
    return node


def _has_kernel(node: Node, is_convolution: bool) -> bool:
    # Unfused 1-D convolutions stay as they are: the fused operator takes 2-D and 3-D kernels only.
    return not is_convolution or node.body is not None or len(integers(node, "kernel")) > 1
