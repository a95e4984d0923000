"""Several inputs of a network as one vector, in which they follow each other.

While a network is quantized and measured, it has one input: operators take the others out of it, and have their names.
Only in the deployed network do these operators become inputs again. They come first, so that this can be reversed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import count
from math import prod
from typing import Optional

import numpy as np

from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import integer_tuple

Shapes = Mapping[str, tuple[int, ...]]
"""The shapes of inputs without the batch, by their names, in their order in the vector."""


def taken_out(data: str, shapes: Shapes) -> tuple[Node, ...]:
    """The operators that take the inputs out of the vector ``data``."""
    nodes, begin = [], 0
    for name, shape in shapes.items():
        end = begin + prod(shape)
        flat = name if len(shape) == 1 else f"{data}_{name}"
        nodes.append(
            Node(flat, "slice_axis", (Tensor(data),), {"axis": "1", "begin": str(begin), "end": str(end)}, (name,))
        )
        if flat != name:
            nodes.append(Node(name, "Reshape", (Tensor(flat),), {"shape": str((-1, *shape))}, (name,)))
        begin = end
    return tuple(nodes)


def free_name(names: Collection[str], shapes: Shapes) -> str:
    """A name for the vector in a network with these names, which none of the operators added for it shares."""
    known = {*names, *shapes}
    candidates = (f"inputs{number or ''}" for number in count())
    return next(name for name in candidates if not any(each == name or each.startswith(f"{name}_") for each in known))


def with_inputs_joined(graph: Graph, data: str, shapes: Shapes) -> Graph:
    """The network as it is quantized and measured: its inputs ``shapes`` come out of the vector ``data``."""
    if not shapes:
        return graph
    others = tuple(name for name in graph.inputs if name not in shapes)
    return replace(graph, nodes=(*taken_out(data, shapes), *graph.nodes), inputs=(data, *others))


def with_inputs_apart(graph: Graph, shapes: Shapes) -> Graph:
    """The network as it is deployed: the inverse of ``with_inputs_joined``."""
    if not shapes:
        return graph
    others = graph.inputs[1:]
    own = names_taken_out(graph, shapes)
    nodes = tuple(node for node in graph.nodes if node.name not in own)
    return replace(graph, nodes=nodes, inputs=(*shapes, *others))


def names_taken_out(graph: Graph, shapes: Shapes) -> frozenset[str]:
    """The names of the operators that take the inputs out of the vector of a network."""
    return frozenset(node.name for node in taken_out(graph.inputs[0], shapes)) if shapes else frozenset()


def apart(vectors: np.ndarray, shapes: Shapes) -> dict[str, np.ndarray]:
    """The inputs in a batch of vectors, of shape (batch, values)."""
    inputs, begin = {}, 0
    for name, shape in shapes.items():
        end = begin + prod(shape)
        inputs[name] = vectors[:, begin:end].reshape(-1, *shape)
        begin = end
    return inputs


def taken_from(graph: Graph, data: str) -> dict[Tensor, slice]:
    """The parts of an input that a network reads, with the places on its second axis that they have.

    Empty if an operator reads the whole input.
    """
    readers = graph.consumers.get(Tensor(data), ())
    parts = {node.output: _places(node) for node in readers}
    if Tensor(data) in graph.outputs or not all(parts.values()):
        return {}
    return {tensor: places for tensor, places in parts.items() if places is not None}


def _places(node: Node) -> Optional[slice]:
    """What an operator takes of the second axis; None if it does something else."""
    numbers = [integer_tuple(node.attrs.get(name, "")) for name in ("axis", "begin", "end")]
    if node.op != "slice_axis" or not all(values is not None and len(values) == 1 for values in numbers):
        return None
    axis, begin, end = (values[0] for values in numbers if values)
    return slice(begin, end) if axis == 1 and 0 <= begin < end else None
