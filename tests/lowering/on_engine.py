"""Networks quantized without algorithms, and how far the engine's INT8 is from FP32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quantkit.backends.mxnet.execute import run
from quantkit.calibration.collect import collect_ranges
from quantkit.calibration.table import CalibrationTable
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import Fused, fuse
from quantkit.ir.graph import Graph
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.planning import calibration_targets, make_plan
from quantkit.quantization.quantized_graph import QuantizedGraph


def quantized(graph: Graph, data: np.ndarray, exclude: Sequence[str] = ()) -> tuple[Fused, QuantizationPlan, Graph]:
    fused = fuse(graph, data.shape[1:])
    targets = calibration_targets(fused.graph)
    ranges = collect_ranges(float_graph(fused.graph), targets, [data], len(data), "minmax")
    table = CalibrationTable("minmax", len(data), "random", ranges, "0" * 64, "0" * 64)
    plan = make_plan(fused, table, exclude)
    return fused, plan, int8_graph(QuantizedGraph(fused.graph, plan))


def largest_error(graph: Graph, data: np.ndarray) -> float:
    """Of any element, over the largest value; unlike a cosine it sees one wrong channel or border."""
    expected, found = (run(form, {"data": data})[0] for form in (graph, quantized(graph, data)[2]))
    return float(np.abs(found - expected).max() / np.abs(expected).max())
