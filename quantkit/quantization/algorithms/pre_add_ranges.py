"""The ranges of layers' results before something is added to them.

MXNet's kernels add in 32 bits and need none. ONNX Runtime adds integers of 8 bits, so for ONNX each such result is
rounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from quantkit.calibration.collect import collect_ranges
from quantkit.fusion.float_symbol import float_graph
from quantkit.ir.fused_layer import unrolled
from quantkit.ir.graph import Graph, Node, Tensor
from quantkit.ir.names import Names
from quantkit.quantization.quantized_graph import QuantizedGraph


def with_measured_pre_add_ranges(
    network: QuantizedGraph, batches: Iterable[np.ndarray], batch_size: int, method: str
) -> QuantizedGraph:
    """The network with the range of every INT8 layer's result before its sum, as it has them in FP32.

    Args:
        network: the quantized network, with the weights and biases that are lowered.
        batches: float32 input, at most ``batch_size`` samples each.
        batch_size: see ``collect_ranges``.
        method: the calibration method.

    Raises:
        DataError: there are no batches, or results are NaN or infinite.
    """
    apart, results = _with_sums_apart(network)
    found = collect_ranges(float_graph(apart), list(results.values()), batches, batch_size, method) if results else {}
    pre_add_ranges = {tensor: found[str(result)] for tensor, result in results.items()}
    return replace(network, plan=replace(network.plan, pre_add_ranges=pre_add_ranges))


def _with_sums_apart(network: QuantizedGraph) -> tuple[Graph, dict[Tensor, Tensor]]:
    """The network with sums as operators of their own, and for each sum the result of its layer."""
    graph = network.graph
    names = Names(graph.names)
    nodes: list[Node] = []
    results: dict[Tensor, Tensor] = {}
    for node in graph.nodes:
        unit = network.int8_layer(node)
        if unit is None or unit.addition is None:
            nodes.append(node)
            continue
        parts = unrolled(node, node.inputs, node.name, lambda wanted: names.take(f"{wanted}_before_sum"))
        results[node.output] = parts[0].output
        nodes += parts
    return replace(graph, nodes=tuple(nodes)), results
