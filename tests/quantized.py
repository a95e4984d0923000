"""Quantized graphs as tests take them apart."""

from __future__ import annotations

from quantkit.ir.graph import Graph
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.speed import MedianInterval, SpeedProof

SPEED = SpeedProof(
    faster=True,
    complete=True,
    layers=3,
    returned=("conv",),
    reference="fp32_fused",
    ratio=MedianInterval(1.5, 1.25, 1.75),
    all_int8=MedianInterval(1.0, 0.75, 1.25),
    fused=MedianInterval(1.25, 1.0, 1.5),
    milliseconds={"fp32": 4.0, "fp32_fused": 3.0, "all_int8": 3.0, "int8": 2.0},
    rounds=50,
    batch=4,
    cpu="Some CPU",
    threads=2,
    engine="mxnet",
    version="1.9.1",
    busy=0.125,
    candidates=(20, 12),
)
"""A proof that INT8 is faster."""


def parts_of(network: QuantizedGraph) -> tuple[Graph, QuantizationPlan]:
    return network.graph, network.plan


def int8_names(graph: Graph, plan: QuantizationPlan) -> tuple[str, ...]:
    """The layers that run in INT8."""
    return tuple(unit.node.name for unit in QuantizedGraph(graph, plan).int8_layers)
