"""Networks in the operators of MXNet 1.5, for builds of that age."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.names import Names
from quantkit.ir.operators import number

_BOX_DECODE = "_contrib_box_decode"


def with_older_operators(graph: Graph) -> Graph:
    """The network without the operator that decodes boxes, which MXNet has from 1.6 on; itself if it has none.

    What takes its place computes the same as GluonCV does where the operator is missing.
    """
    if all(node.op != _BOX_DECODE for node in graph.nodes):
        return graph
    names, params = Names(graph.names), dict(graph.params)
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.extend(_decoded(node, names, params) if node.op == _BOX_DECODE else (node,))
    return replace(graph, nodes=tuple(nodes), params=params)


def _decoded(node: Node, names: Names, params: dict[str, np.ndarray]) -> Iterator[Node]:
    """Boxes by their corners, from offsets in sizes of anchors and logarithms of scales."""
    steps: list[Node] = []

    def step(op: str, *inputs: Tensor, **attrs: object) -> Tensor:
        made = Node(names.take(f"{node.name}_{op}"), op, inputs, {key: str(value) for key, value in attrs.items()})
        steps.append(replace(made, origin=node.origin))
        return made.output

    def columns(tensor: Tensor, begin: int, end: int) -> Tensor:
        return step("slice_axis", tensor, axis=-1, begin=begin, end=end)

    offsets, anchors = node.inputs
    stds = names.take(f"{node.name}_stds")
    params[stds] = np.array([number(node, f"std{column}", 1.0) for column in range(4)], np.float32).reshape(1, 1, 4)
    scaled = step("broadcast_mul", offsets, Tensor(stds))
    first, last = columns(anchors, 0, 2), columns(anchors, 2, 4)
    centre, size = first, last
    if node.attrs.get("format", "center") == "corner":
        size = step("broadcast_sub", last, first)
        centre = step("broadcast_add", first, step("_mul_scalar", size, scalar=0.5))
    growth = columns(scaled, 2, 4)
    if (most := number(node, "clip", -1.0)) > 0:
        growth = step("_minimum_scalar", growth, scalar=most)
    place = step("broadcast_add", step("broadcast_mul", columns(scaled, 0, 2), size), centre)
    reach = step("_mul_scalar", step("broadcast_mul", step("exp", growth), size), scalar=0.5)
    corners = [step(op, place, reach) for op in ("broadcast_sub", "broadcast_add")]
    yield from steps
    yield replace(node, op="Concat", inputs=tuple(corners), attrs={"dim": "-1", "num_args": "2"})
