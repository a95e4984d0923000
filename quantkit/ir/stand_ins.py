"""FP32 stand-ins for integer operators whose shapes MXNet 1.6 infers without checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Optional

from quantkit.ir.graph import Graph, Node, Tensor

_POOLING, _NORMALIZATION = "_contrib_quantized_pooling", "_contrib_quantized_batch_norm"

# The FP32 operator that infers the same shape, and the numbers of axes that the integers may have.
_FLOATS = {_POOLING: ("Pooling", (4,)), _NORMALIZATION: ("_copy", (2, 3, 4, 5))}


def float_stand_in(graph: Graph) -> Optional[Graph]:
    """The network with FP32 operators in place of integer pooling and normalization; None if it has neither.

    Its outputs are the inputs and outputs of these operators.
    """
    wanted: list[Tensor] = []
    nodes: list[Node] = []
    ranges: dict[Tensor, Tensor] = {}
    for node in graph.nodes:
        node = replace(node, inputs=tuple(ranges.get(tensor, tensor) for tensor in node.inputs))
        if node.op in _FLOATS:
            wanted += (node.inputs[0], node.output)
            # The ends of a range have the shape (1,) before and after.
            ranges.update({Tensor(node.name, index): node.inputs[index - 3] for index in (1, 2)})
            op = _FLOATS[node.op][0]
            node = replace(node, op=op, inputs=node.inputs[:1], attrs=node.attrs if op == "Pooling" else {})
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes), outputs=tuple(wanted)).pruned() if wanted else None


def integer_problem(graph: Graph, shapes: Mapping[Tensor, tuple[int, ...]]) -> Optional[str]:
    """Why integers of these shapes may not be pooled or normalized; None if they may.

    Args:
        graph: the network.
        shapes: of the outputs of its ``float_stand_in``; an empty shape is unknown.
    """
    for node in graph.nodes:
        if node.op in _FLOATS and (shape := shapes.get(node.inputs[0])) and len(shape) not in _FLOATS[node.op][1]:
            newer = ", which MXNet pools from 1.9 on" if node.op == _POOLING and len(shape) == 5 else ""
            return f"node {node.name!r} ({node.op}) reads integers of shape {shape}{newer}"
    return None
