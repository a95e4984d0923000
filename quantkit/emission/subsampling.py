"""Strided 1x1 convolutions as a subsampling and convolutions without stride, for ONNX.

Where all that read a tensor are such convolutions (ResNet v1's downsampling), OpenVINO takes their stride out by
itself, between dequantization and convolution, and then computes them in FP32. Written out, the subsampling is one of
integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Optional

from quantkit.emission.layers import with_core_attrs
from quantkit.fusion.unit import Unit, unit_of
from quantkit.graph.graph import Node, Tensor
from quantkit.graph.operators import integers
from quantkit.quantization.plan import Decision
from quantkit.quantization.quantized_graph import QuantizedGraph

Shape = tuple[int, ...]


def with_subsampling(
    network: QuantizedGraph, shapes: Mapping[Tensor, Shape]
) -> tuple[QuantizedGraph, dict[Tensor, Shape]]:
    """The same network and its tensors' shapes with max pooling of single values before such convolutions."""
    graph, plan = network.graph, network.plan
    sampled = {tensor: strides for tensor in plan.activations if (strides := _strides(network, tensor))}
    names = {tensor: Tensor(graph.free_name(f"{tensor.node}_subsampled")) for tensor in sampled}
    nodes: list[Node] = []
    made: dict[Tensor, Shape] = {}
    for node in graph.nodes:
        unit = unit_of(node)
        if unit is not None and unit.data in sampled:
            node = _read_from(unit, names[unit.data])
        nodes.append(node)
        if node.output in sampled:
            strides, shape = sampled[node.output], shapes[node.output]
            attrs = {"kernel": str((1,) * len(strides)), "stride": str(strides), "pool_type": "max"}
            nodes.append(Node(names[node.output].node, "Pooling", (node.output,), attrs, node.origin))
            extents = tuple((extent - 1) // stride + 1 for extent, stride in zip(shape[2:], strides))
            made[names[node.output]] = (*shape[:2], *extents)
    decisions = {name.node: Decision(name.node, "Pooling", (), "int8") for name in made}
    forms = {names[tensor]: plan.activations[tensor] for tensor in sampled}
    complete = replace(plan, decisions={**plan.decisions, **decisions}, activations={**plan.activations, **forms})
    return QuantizedGraph(replace(graph, nodes=tuple(nodes)), complete), {**shapes, **made}


def _strides(network: QuantizedGraph, tensor: Tensor) -> Optional[Shape]:
    """The one stride with which INT8 convolutions of single values, and nothing else, read a computed tensor."""
    graph = network.graph
    readers = graph.consumers.get(tensor, ())
    if not readers or tensor in graph.outputs or graph.producer(tensor) is None:
        return None
    found = set()
    for reader in readers:
        unit = network.int8_layer(reader)
        if unit is None:
            return None
        found.add(integers(unit.core, "stride") if _is_pointwise(unit, tensor) else ())
    (strides, *others) = found
    return strides if not others and max(strides, default=1) > 1 else None


def _is_pointwise(unit: Unit, data: Tensor) -> bool:
    kernel, pad = integers(unit.core, "kernel"), integers(unit.core, "pad")
    return unit.is_convolution and data != unit.addend and set(kernel) == {1} and not any(pad)


def _read_from(unit: Unit, data: Tensor) -> Node:
    plain = with_core_attrs(unit, {"stride": str((1,) * len(integers(unit.core, "stride")))})
    node = plain.core if plain.node.body is None else plain.node
    return replace(node, name=unit.node.name, inputs=(data, *unit.node.inputs[1:]), origin=unit.node.origin)
