"""Operators that compute from nothing but parameters: their results are parameters, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from quantkit.backends.mxnet.execute import run
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import integers


def with_constants_folded(graph: Graph) -> Graph:
    """The same network without the operators that no input reaches, their results among its parameters.

    Run operator by operator, these have no images to run over. Those stay whose shape the input decides.
    """
    constant = set(graph.params)
    for node in graph.nodes:
        if all(tensor.node in constant for tensor in node.inputs) and not _is_open(node):
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


def batch_constants(graph: Graph, images: int) -> Mapping[Tensor, np.ndarray]:
    """The constants whose first axis is left open, such as states of zero that a recurrent cell begins with.

    They are (images, ...); those that are open elsewhere are left out.
    """
    closed = []
    for node in filter(_is_open, graph.nodes):
        first, *rest = integers(node, "shape")
        if first == 0 and 0 not in rest:
            closed.append(replace(node, attrs={**node.attrs, "shape": str((images, *rest))}))
    tensors = tuple(node.output for node in closed)
    return dict(zip(tensors, run(Graph(tuple(closed), (), tensors, {}), {}))) if closed else {}


def _is_open(node: Node) -> bool:
    """Whether a constant's shape has axes, written as 0, whose lengths follow from what reads it."""
    return not node.inputs and 0 in integers(node, "shape")
