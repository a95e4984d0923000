"""Quantized graphs as tests take them apart."""

from __future__ import annotations

from quantkit.ir.graph import Graph
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.quantized_graph import QuantizedGraph


def parts_of(network: QuantizedGraph) -> tuple[Graph, QuantizationPlan]:
    return network.graph, network.plan


def int8_names(graph: Graph, plan: QuantizationPlan) -> tuple[str, ...]:
    """The layers that run in INT8."""
    return tuple(unit.node.name for unit in QuantizedGraph(graph, plan).int8_layers)
