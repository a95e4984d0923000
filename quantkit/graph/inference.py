"""The form of a network that predicts: training losses replaced, their label inputs gone."""

from __future__ import annotations

from dataclasses import replace

from quantkit.graph.graph import Graph, Node
from quantkit.graph.operators import flag

_LOSSES = frozenset({"SoftmaxOutput", "Softmax"})


def inference_form(graph: Graph) -> Graph:
    """Replace softmax losses by softmax and drop the inputs that nothing reads any more."""
    nodes = tuple(_without_loss(node) for node in graph.nodes)
    read = {tensor.node for node in nodes for tensor in node.inputs} | {tensor.node for tensor in graph.outputs}
    inputs = tuple(name for name in graph.inputs if name in read)
    return Graph(nodes, inputs, graph.outputs, graph.params)


def _without_loss(node: Node) -> Node:
    if node.op not in _LOSSES:
        return node
    axis = "1" if flag(node, "multi_output") else "-1"
    return replace(node, op="softmax", inputs=node.inputs[:1], attrs={"axis": axis})
