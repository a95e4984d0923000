"""Networks of sequences in the form that every stage expects: the batch is the first axis of inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Optional

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.errors import EngineError, ModelError
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.names import Names
from quantkit.ir.recurrent_layer import exchanges_batch, swapped

Shape = tuple[int, ...]
Shapes = Mapping[Tensor, Shape]

# Two sizes tell the axis of the batch from all others.
_BATCHES = (2, 3)


def with_batch_first_input(graph: Graph, name: str) -> Graph:
    """A network that reads (steps, batch, ...), made to read (batch, steps, ...).

    Where it begins with the opposite swap, the two cancel.
    """
    data = Tensor(name)
    readers = graph.consumers.get(data, ())
    if readers and all(map(exchanges_batch, readers)) and data not in graph.outputs:
        return _without(graph, readers, data)
    swap = swapped(Names(graph.names).free(f"{name}_time_major"), data)
    nodes = (replace(node, inputs=tuple(swap.output if x == data else x for x in node.inputs)) for node in graph.nodes)
    return replace(graph, nodes=(swap, *nodes))


def with_batch_first_outputs(
    graph: Graph, name: str, input_shape: Shape, params: Mapping[str, Shape], where: str
) -> Graph:
    """A network of sequences whose outputs all begin with the batch, then the steps where they have steps.

    Args:
        graph: a network that reads (batch, steps, ...), with its parameters among the inputs.
        name: of its input.
        input_shape: (steps, ...).
        params: the shapes of its parameters.
        where: what messages call the network.

    Raises:
        ModelError: a recurrent layer takes the samples of a batch for steps, or an output's batch cannot be told.
    """
    sizes = _Sizes(*(_shapes(graph, {**params, name: (batch, *input_shape)}, where) for batch in _BATCHES))
    for node in graph.nodes:
        if node.op == "RNN" and sizes.batch_axes(node.inputs[0]) == (0,):
            raise ModelError(
                f"{where}: node {node.name!r} (RNN) would take the samples of a batch for steps; say which axis comes "
                "first with the layout: NTC or NT (batch, steps, ...), TNC or TN (steps, batch, ...)"
            )
    for position, output in enumerate(graph.outputs):
        added = _form(graph, output, sizes, where)
        outputs = (*graph.outputs[:position], added[-1].output if added else output, *graph.outputs[position + 1 :])
        graph = replace(graph, nodes=(*graph.nodes, *added), outputs=outputs)
    return graph.pruned()


@dataclass(frozen=True)
class _Sizes:
    """The shapes of all tensors for two sizes of batch."""

    first: Shapes
    other: Shapes

    def batch_axes(self, tensor: Tensor) -> tuple[int, ...]:
        """The axes that follow the size of the batch."""
        pairs = zip(self.first[tensor], self.other[tensor])
        return tuple(axis for axis, (one, two) in enumerate(pairs) if one != two)


def _shapes(graph: Graph, shapes: Mapping[str, Shape], where: str) -> Shapes:
    try:
        return infer_shapes(graph, shapes)
    except EngineError as error:
        raise ModelError(
            f"{where} does not accept sequences in batches: {error}; export it without a fixed batch size, and give "
            "the layout and the input shape it was made for"
        ) from error


def _form(graph: Graph, output: Tensor, sizes: _Sizes, where: str) -> tuple[Node, ...]:
    """The operators that bring an output's batch to the front; none if it is there."""
    axes, shape = sizes.batch_axes(output), sizes.first[output]
    if len(axes) == 1 and shape[axes[0]] == _BATCHES[0]:
        return () if axes == (0,) else (_swap(graph, output, axes[0]),)
    if axes == (0,) and (merged := _merged(graph, output, sizes)):
        lead, batch_first = merged
        form = f"({', '.join(map(str, (*lead, *shape[1:])))})"
        node = Node(_name(graph, output, "steps"), "Reshape", (output,), {"shape": form})
        return (node,) if batch_first else (node, _swap(graph, node.output, 1))
    raise ModelError(
        f"{where}: output {str(output)!r} has the shape {shape} for a batch of {_BATCHES[0]}, which does not tell the "
        "samples apart; export the network with outputs of shape (batch, steps, ...) or (steps, batch, ...)"
    )


def _merged(graph: Graph, output: Tensor, sizes: _Sizes) -> Optional[tuple[Shape, bool]]:
    """The first two axes before steps and batch became one, -1 for the batch, and whether that is the first.

    None if that cannot be told.
    """
    node = graph.producer(output)
    while node is not None and node.inputs:
        shape, axes = sizes.first[node.inputs[0]], sizes.batch_axes(node.inputs[0])
        if len(shape) >= 3 and axes in ((0,), (1,)):
            if shape[axes[0]] != _BATCHES[0] or shape[0] * shape[1] != sizes.first[output][0]:
                return None
            return ((-1, shape[1]), True) if axes == (0,) else ((shape[0], -1), False)
        node = graph.producer(node.inputs[0])
    return None


def _swap(graph: Graph, tensor: Tensor, axis: int) -> Node:
    return Node(_name(graph, tensor, "batch_first"), "SwapAxis", (tensor,), {"dim1": "0", "dim2": str(axis)})


def _name(graph: Graph, tensor: Tensor, suffix: str) -> str:
    return Names(graph.names).free(f"{tensor.stem}_{suffix}")


def _without(graph: Graph, dropped: tuple[Node, ...], data: Tensor) -> Graph:
    """The network without nodes that change nothing; what read them reads ``data``."""
    gone = {node.output for node in dropped}
    nodes = tuple(
        replace(node, inputs=tuple(data if tensor in gone else tensor for tensor in node.inputs))
        for node in graph.nodes
        if node.output not in gone
    )
    return replace(graph, nodes=nodes, outputs=tuple(data if each in gone else each for each in graph.outputs))
