"""Strided 1x1 convolutions as a subsampling and convolutions without stride, for ONNX.

Where only such convolutions read a tensor (ResNet v1's downsampling), OpenVINO itself moves the stride out, between
dequantization and convolution, and then computes the convolutions in FP32. An explicit subsampling stays in integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Optional

from quantkit.ir.fused_layer import FusedLayer, fused_layer_of, with_core_attrs
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.names import Names
from quantkit.ir.operators import integers
from quantkit.quantization.plan import Decision
from quantkit.quantization.quantized_graph import QuantizedGraph

Shape = tuple[int, ...]


def with_subsampling(
    network: QuantizedGraph, shapes: Mapping[Tensor, Shape]
) -> tuple[QuantizedGraph, dict[Tensor, Shape]]:
    """The network with max pooling over single values before such convolutions, and its tensors' shapes."""
    graph, plan = network.graph, network.plan
    sampled = {tensor: strides for tensor in plan.tensors if (strides := _strides(network, tensor))}
    names = _names(graph, sampled)
    outputs: dict[str, list[Tensor]] = {}
    for tensor in sampled:
        outputs.setdefault(tensor.node, []).append(tensor)
    nodes: list[Node] = []
    made: dict[Tensor, Shape] = {}
    for node in graph.nodes:
        layer = fused_layer_of(node)
        if layer is not None and layer.data in sampled:
            node = _read_from(layer, names[layer.data])
        nodes.append(node)
        for tensor in outputs.get(node.name, ()):
            strides, shape = sampled[tensor], shapes[tensor]
            attrs = {"kernel": str((1,) * len(strides)), "stride": str(strides), "pool_type": "max"}
            nodes.append(Node(names[tensor].node, "Pooling", (tensor,), attrs, node.origin))
            extents = tuple((extent - 1) // stride + 1 for extent, stride in zip(shape[2:], strides))
            made[names[tensor]] = (*shape[:2], *extents)
    decisions = {name.node: Decision(name.node, "Pooling", (), "int8") for name in made}
    forms = {names[tensor]: plan.tensors[tensor] for tensor in sampled}
    complete = replace(plan, decisions={**plan.decisions, **decisions}, tensors={**plan.tensors, **forms})
    return replace(network, graph=replace(graph, nodes=tuple(nodes)), plan=complete), {**shapes, **made}


def _names(graph: Graph, tensors: Iterable[Tensor]) -> dict[Tensor, Tensor]:
    """The names of the tensors after subsampling."""
    names = Names(graph.names)
    return {tensor: Tensor(names.take(f"{tensor.stem}_subsampled")) for tensor in tensors}


def _strides(network: QuantizedGraph, tensor: Tensor) -> Optional[Shape]:
    """The common stride of a computed tensor's readers; None unless all are strided 1x1 INT8 convolutions."""
    graph = network.graph
    readers = graph.consumers.get(tensor, ())
    if not readers or tensor in graph.outputs or graph.producer(tensor) is None:
        return None
    all_strides = set()
    for reader in readers:
        layer = network.int8_layer(reader)
        if layer is None:
            return None
        all_strides.add(integers(layer.core, "stride") if _is_pointwise(layer, tensor) else ())
    (strides, *others) = all_strides
    return strides if not others and max(strides, default=1) > 1 else None


def _is_pointwise(layer: FusedLayer, data: Tensor) -> bool:
    kernel, pad = integers(layer.core, "kernel"), integers(layer.core, "pad")
    return layer.is_convolution and data != layer.addend and set(kernel) == {1} and not any(pad)


def _read_from(layer: FusedLayer, data: Tensor) -> Node:
    plain = with_core_attrs(layer, {"stride": str((1,) * len(integers(layer.core, "stride")))})
    node = plain.core if plain.node.body is None else plain.node
    return replace(node, name=layer.node.name, inputs=(data, *layer.node.inputs[1:]), origin=layer.node.origin)
