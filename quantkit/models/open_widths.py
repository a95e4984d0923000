"""The widths of recurrent weights that Gluon leaves open: those of a first layer follow from the data it reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from quantkit.backends.mxnet.shapes import shape_if_known
from quantkit.errors import EngineError
from quantkit.ir.graph import Graph, Node, Tensor

Shape = tuple[int, ...]


def with_recurrent_widths(graph: Graph, noted: Mapping[str, Shape], known: Mapping[str, Shape]) -> dict[str, Shape]:
    """The known shapes, and those of recurrent weights that are stated as (rows, 0).

    MXNet does not tell them: it takes an open width for 0 where it puts a layer's parameters together.

    Args:
        graph: a network, with its parameters among the inputs.
        noted: the shapes that it states for variables; 0 is an unknown extent.
        known: shapes of variables, that of the data included.
    """
    shapes = dict(known)
    for node in graph.nodes:
        open_weights = [name for name in _parameters(graph, node) if noted.get(name, ())[1:] == (0,)]
        read = _shape(graph, node.inputs[0], shapes) if open_weights else None
        if read is not None:
            shapes |= {name: (noted[name][0], read[-1]) for name in open_weights}
    return shapes


def _shape(graph: Graph, tensor: Tensor, shapes: Mapping[str, Shape]) -> Optional[Shape]:
    try:
        return shape_if_known(graph, tensor, shapes)
    except EngineError:
        # What does not fit is told when all shapes are inferred.
        return None


def _parameters(graph: Graph, node: Node) -> list[str]:
    """The variables that the parameters of a recurrent layer are put together from."""
    made = graph.producer(node.inputs[1]) if node.op == "RNN" else None
    if made is None or made.op != "_rnn_param_concat":
        return []
    return [_flattened(graph, tensor).node for tensor in made.inputs]


def _flattened(graph: Graph, tensor: Tensor) -> Tensor:
    made = graph.producer(tensor)
    return made.inputs[0] if made is not None and made.op == "Reshape" else tensor
