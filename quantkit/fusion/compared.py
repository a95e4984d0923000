"""The tensors by which a network and its fused form are compared, where outputs would hide or inflate deviations."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.names import Names

_SOFTMAX = frozenset({"softmax", "log_softmax", "SoftmaxActivation"})

# The smallest deviation exchanges what these order, and turns what these find true or false.
_SORTING = frozenset(
    {
        "_contrib_box_nms",
        "_contrib_box_non_maximum_suppression",
        "_contrib_MultiBoxDetection",
        "argsort",
        "sort",
        "topk",
    }
)
_RELATION = re.compile(r"_?(broadcast_)?(not_)?(equal|greater|lesser)(_equal)?(_scalar)?")

# Of these only the shape is read: of the second input of the first kind, of all inputs of the second.
_SHAPE_OF_SECOND = frozenset({"slice_like", "reshape_like", "broadcast_like", "_identity_with_attr_like_rhs"})
_SHAPES = frozenset({"shape_array", "size_array", "zeros_like", "ones_like", "_contrib_arange_like"})


def compared(original: Graph, fused: Graph) -> tuple[Graph, Graph]:
    """Both networks with the tensors to compare as outputs.

    In place of a softmax's result stands its input: the result saturates and hides deviations. In place of what is
    selected or sorted by score (boxes above a threshold, or after non-maximum suppression) stands what the selection
    and all after it, up to the next layer, read of the network's values: where two scores are nearly the same, rounding
    exchanges them. What layers read counts as selected only where it was sorted; see ``sorted_within``.
    """
    first, second = (tuple(_tensors(graph)) for graph in (original, fused))
    if not first or len(first) != len(second):
        first, second = original.outputs, fused.outputs
    return original.with_outputs(first), fused.with_outputs(second)


def sorted_within(graph: Graph) -> tuple[Tensor, ...]:
    """What a network sorts or selects before its last layer, if it sorts there: the regions of a second stage.

    Two forms of a network are compared with the same selection; without it, layers would read other regions.
    """
    names = _selecting_before_layers(graph)
    return tuple(tensor for tensor in graph.consumers if tensor.node in names)


def with_constants(graph: Graph, values: Mapping[Tensor, np.ndarray]) -> Graph:
    """The network with constants in place of tensors."""
    free = Names(graph.names)
    constants = {tensor: Tensor(free.take(f"{tensor.stem}_selected")) for tensor in values}
    nodes = (
        replace(node, inputs=tuple(constants.get(tensor, tensor) for tensor in node.inputs)) for node in graph.nodes
    )
    params = {**graph.params, **{constants[tensor].node: value for tensor, value in values.items()}}
    return replace(graph, nodes=tuple(nodes), params=params).pruned()


def _tensors(graph: Graph) -> Iterator[Tensor]:
    layers = _layers(graph)
    before_layers = _upstream(graph, map(Tensor, layers))
    within = _selecting_before_layers(graph)
    selecting = (name for name in _selecting(graph) if name in within or name not in before_layers)
    selected = _downstream(graph, selecting, layers)
    leading = _upstream(graph, graph.outputs)
    valued = _valued(graph)
    read = (
        tensor
        for node in graph.nodes
        if node.name in selected & leading
        for tensor in _read(node)
        if tensor.node in valued and tensor.node not in selected
    )
    kept = (_before_softmax(graph, tensor) for tensor in graph.outputs if tensor.node not in selected)
    return iter((*kept, *dict.fromkeys(read)))


def _selecting_before_layers(graph: Graph) -> frozenset[str]:
    """The nodes that sort or select before the last layer; none where they only select, as masks do."""
    before = _upstream(graph, map(Tensor, _layers(graph)))
    names = frozenset(name for name in _selecting(graph) if name in before)
    return names if any(graph.by_name[name].op in _SORTING for name in names) else frozenset()


def _selecting(graph: Graph) -> Iterator[str]:
    return (node.name for node in graph.nodes if node.op in _SORTING or _RELATION.fullmatch(node.op.lower()))


def _layers(graph: Graph) -> frozenset[str]:
    """The nodes that have weights."""
    return frozenset(
        node.name
        for node in graph.nodes
        if any(graph.params[read.node].ndim > 1 for read in node.inputs if read.node in graph.params)
    )


def _before_softmax(graph: Graph, tensor: Tensor) -> Tensor:
    producer = graph.producer(tensor)
    return producer.inputs[0] if producer is not None and producer.op in _SOFTMAX else tensor


def _downstream(graph: Graph, names: Iterable[str], stops: Container[str] = ()) -> frozenset[str]:
    """The nodes of these names, and those whose values depend on them without one of ``stops`` between."""
    reached = set(names)
    for node in graph.nodes:
        if node.name not in stops and any(tensor.node in reached for tensor in _read(node)):
            reached.add(node.name)
    return frozenset(reached)


def _upstream(graph: Graph, tensors: Iterable[Tensor]) -> frozenset[str]:
    reached = {tensor.node for tensor in tensors}
    for node in reversed(graph.nodes):
        if node.name in reached:
            reached.update(tensor.node for tensor in node.inputs)
    return frozenset(reached)


def _valued(graph: Graph) -> frozenset[str]:
    """The nodes whose values depend on those of the network's inputs, and not on their shapes alone."""
    return _downstream(graph, graph.inputs) - frozenset(graph.inputs)


def _read(node: Node) -> tuple[Tensor, ...]:
    """The inputs whose values, and not only their shapes, a node reads."""
    if node.op in _SHAPES:
        return ()
    return node.inputs[:1] if node.op in _SHAPE_OF_SECOND else node.inputs
