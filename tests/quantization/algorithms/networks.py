"""Small networks on their way to INT8."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quantkit.calibration.collect import collect_ranges
from quantkit.calibration.table import CalibrationTable
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import Fused, fuse
from quantkit.ir.graph import Graph, Tensor
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.planning import calibration_targets, make_plan
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.simulation.simulator import SideBySide, int8_network
from tests.networks import DATA, Builder


def computed_weights() -> Graph:
    """Between two convolutions one whose weights are the second part of a parameter, and a constant without inputs."""
    b = Builder()
    both = b.param("both", b.random.normal(size=(8, 16, 3, 3)) / 8)
    b.op("SliceChannel", "parts", both, num_outputs=2, axis=1)
    first = b.relu("relu0", b.conv("conv0", DATA, 3, 8))
    middle = b.op("Convolution", "conv1", first, Tensor("parts", 1), kernel=(3, 3), num_filter=8, no_bias=True)
    shifted = b.op("broadcast_add", "shifted", b.relu("relu1", middle), b.op("_ones", "ones", shape=(1, 8, 1, 1)))
    return b.graph(b.relu("relu2", b.conv("conv2", shifted, 8, 8)))


def planned(graph: Graph, data: np.ndarray, *exclude: str) -> tuple[Fused, QuantizationPlan]:
    """The network fused and calibrated on ``data``, and what becomes of it."""
    fused = fuse(graph, data.shape[1:])
    targets = calibration_targets(fused.graph)
    ranges = collect_ranges(float_graph(fused.graph), targets, [data], len(data), "minmax")
    table = CalibrationTable("minmax", len(data), "random", ranges, "0" * 64, "0" * 64)
    return fused, make_plan(fused, table, exclude)


def simulated(
    graph: Graph, plan: QuantizationPlan, data: np.ndarray, given: Mapping[Tensor, np.ndarray]
) -> dict[Tensor, np.ndarray]:
    """Every tensor as the INT8 network has it, in real numbers; what follows from a ``given`` one takes that."""
    network = QuantizedGraph(graph, plan)
    both = SideBySide(graph, int8_network(network), data)
    found: dict[Tensor, np.ndarray] = {Tensor("data"): data}
    for _ in both.run():
        for tensor in both.quantized.keys() - found.keys():
            found[tensor] = both.quantized[tensor]
            both.quantized[tensor] = given.get(tensor, found[tensor])
    del found[Tensor("data")]
    return found
