"""Networks quantized without algorithms, and how far the engine's INT8 is from FP32."""

from __future__ import annotations

import numpy as np

from quantkit.backends.mxnet.execute import run
from quantkit.fusion.fuse import Fused
from quantkit.ir.graph import Graph
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.quantized_graph import QuantizedGraph
from tests.quantization.algorithms.networks import planned


def quantized(graph: Graph, data: np.ndarray, *exclude: str) -> tuple[Fused, QuantizationPlan, Graph]:
    """The network fused and calibrated on ``data``, what becomes of it, and its INT8 symbol."""
    fused, plan = planned(graph, data, *exclude)
    return fused, plan, int8_graph(QuantizedGraph(fused.graph, plan))


def largest_error(graph: Graph, data: np.ndarray) -> float:
    """Of any element, over the largest value; unlike a cosine it sees one wrong channel or border."""
    expected, found = (run(form, {"data": data})[0] for form in (graph, quantized(graph, data)[2]))
    return float(np.abs(found - expected).max() / np.abs(expected).max())
