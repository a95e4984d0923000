"""Operators that compute from nothing but parameters: their results are parameters, too."""

from __future__ import annotations

from dataclasses import replace

from quantkit.backends.mxnet.execute import run
from quantkit.ir.graph import Graph, Tensor


def with_constants_folded(graph: Graph) -> Graph:
    """The same network without the operators that no input reaches, their results among its parameters.

    Run operator by operator, these have no images to run over.
    """
    constant = set(graph.params)
    for node in graph.nodes:
        if all(tensor.node in constant for tensor in node.inputs):
            constant.add(node.name)
    left = tuple(node for node in graph.nodes if node.name not in constant)
    read = (tensor for node in left for tensor in node.inputs)
    folded = [
        tensor for tensor in dict.fromkeys((*read, *graph.outputs)) if tensor.node in constant - set(graph.params)
    ]
    if not folded:
        return graph
    results = run(replace(graph.with_outputs(folded).pruned(), inputs=()), {})

    def renamed(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(Tensor(str(tensor)) if tensor in folded else tensor for tensor in tensors)

    nodes = tuple(replace(node, inputs=renamed(node.inputs)) for node in left)
    return Graph(nodes, graph.inputs, renamed(graph.outputs), {**graph.params, **dict(zip(map(str, folded), results))})
