"""Quantized networks with LSTM layers, planned as in a process that can run them in INT8; nothing is run in INT8."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np
import pytest

from quantkit.calibration.collect import collect_ranges
from quantkit.calibration.ranges import Range
from quantkit.calibration.table import CalibrationTable
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import Fused, fuse
from quantkit.ir.graph import Graph
from quantkit.quantization import planning
from quantkit.quantization.planning import calibration_targets, make_plan
from quantkit.quantization.quantized_graph import QuantizedGraph


def quantized(
    monkeypatch: pytest.MonkeyPatch,
    graph: Graph,
    inputs: np.ndarray,
    obstacle: Optional[str] = None,
    zero: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> tuple[Fused, QuantizedGraph]:
    """The fused network and its plan; ``zero`` are tensors whose ranges are to be 0, ``exclude`` stays FP32."""
    monkeypatch.setattr(planning, "int8_lstm_obstacle", lambda: obstacle)
    fused = fuse(graph, inputs.shape[1:])
    targets = calibration_targets(fused.graph)
    ranges = collect_ranges(float_graph(fused.graph), targets, [inputs], len(inputs), "minmax")
    ranges |= dict.fromkeys(zero, Range(0.0, 0.0))
    table = CalibrationTable("minmax", len(inputs), "x", ranges, "", "")
    return fused, QuantizedGraph(fused.graph, make_plan(fused, table, exclude))
