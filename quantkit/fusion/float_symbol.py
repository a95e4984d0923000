"""A fused network as an FP32 symbol that stock MXNet runs with its fused kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Optional

from quantkit.errors import ModelError
from quantkit.fusion.engine_operators import CONVOLUTION, DENSE, engine_operator
from quantkit.ir.fused_layer import FUSED, FusedLayer, form_problem, fused_layer_of, has_constant_weights
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.operators import flag, integers
from quantkit.ir.recurrent_layer import (
    RecurrentLayer,
    batch_first_cell,
    exchanges_batch,
    final_cell,
    fused_recurrent,
    hands_on_cell_of,
    part_names,
    reads_cell_of,
    recurrent_layer_of,
    time_major,
)


def float_graph(graph: Graph) -> Graph:
    """The fused graph with each layer as the engine's FP32 fused operator; names and outputs do not change."""
    nodes = (each for node in graph.nodes for each in float_nodes(graph, node))
    return replace(graph, nodes=tuple(nodes))


def float_nodes(graph: Graph, node: Node) -> tuple[Node, ...]:
    """One node of a fused graph in its FP32 form, the last operator with its name; recurrent layers are several.

    A recurrent layer reads the result of another one before its axes are exchanged.
    """
    ended = hands_on_cell_of(graph, node)
    if ended is not None:
        return (batch_first_cell(node.name, part_names(ended.node.name)[-1], node.origin),)
    layer = recurrent_layer_of(node)
    if layer is None:
        return (_float_node(graph, node),)
    before = recurrent_layer_of(graph.producer(layer.data))
    return tuple(time_major(layer, None if before is None else Tensor(part_names(before.node.name)[-1])))


def _float_node(graph: Graph, node: Node) -> Node:
    layer = fused_layer_of(node)
    if layer is None or not has_constant_weights(graph.params, layer) or not _has_kernel(layer):
        return node
    return engine_operator(layer, node.name, node.inputs, {})


def fused_graph(graph: Graph) -> Graph:
    """The inverse of ``float_graph``.

    Raises:
        ModelError: a layer does not have the form that ``float_graph`` gives it.
    """
    return replace(graph, nodes=tuple(map(_fused_node, _without_parts(graph))))


def _without_parts(graph: Graph) -> Iterator[Node]:
    """The nodes, each recurrent layer in place of its ``RNN``, without the operators around it."""
    layers: dict[str, Node] = {}
    for node in graph.nodes:
        if (layer := _recurrent(graph, node, layers)) is not None:
            layers[node.name] = layer
    parts = {part for layer in layers.values() for part in (*part_names(layer.name), layer.name)}
    for node in graph.nodes:
        if node.name in layers:
            yield layers[node.name]
        elif (ended := layers.get(reads_cell_of(node) or "")) is not None:
            yield final_cell(node.name, RecurrentLayer(ended))
        elif node.name not in parts:
            yield node


def _recurrent(graph: Graph, node: Node, layers: Mapping[str, Node]) -> Optional[Node]:
    """The recurrent layer of which a node is the ``RNN``, as ``time_major`` makes it; None if it is not.

    ``layers`` has, by the names of their ``RNN``, those among the nodes before.
    """
    name = node.name.removesuffix("_rnn")
    exchanged, *_, rnn = part_names(name)
    if node.op != "RNN" or node.name != rnn:
        return None
    states, made = _initial_states(graph, node, name), graph.producer(node.inputs[0])
    if states is None or made is None or node.inputs[1].node not in graph.params:
        return None
    before = layers.get(made.name)
    if made.name == exchanged and exchanges_batch(made):
        data = made.inputs[0]
    elif before is not None:
        data = before.output
    else:
        return None
    return fused_recurrent(name, node, data, node.inputs[1], states, flag(node, "state_outputs"))


def _initial_states(graph: Graph, rnn: Node, name: str) -> Optional[tuple[Tensor, ...]]:
    """What an ``RNN`` begins with, nothing where it is zero; None if the layer's parts do not make it."""
    parts = [graph.producer(state) for state in rnn.inputs[2:]]
    made = [part for part in parts if part is not None and part.name in part_names(name)]
    if len(made) < len(parts):
        return None
    if all(part.op == "_zeros" for part in made):
        return ()
    return tuple(part.inputs[0] for part in made) if all(map(exchanges_batch, made)) else None


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


def _has_kernel(layer: FusedLayer) -> bool:
    # The fused operator takes no 1-D kernels, and no 3-D ones before MXNet 1.9. The form may not depend on what is
    # installed: bundles are read elsewhere.
    return not layer.is_convolution or layer.node.body is not None or len(integers(layer.core, "kernel")) == 2
