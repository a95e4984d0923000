"""The ranges of layers' results before something is added to them.

MXNet's kernels add in 32 bits and need none. ONNX Runtime adds integers of 8 bits, so for ONNX each such result is
rounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from quantkit.calibration.collect import collect_ranges
from quantkit.emission.mxnet_float import float_graph
from quantkit.fusion.unit import unit_of, unrolled
from quantkit.graph.graph import Graph, Node, Tensor
from quantkit.quantization.plan import Plan


def with_ranges_before_sums(
    graph: Graph, plan: Plan, batches: Iterable[np.ndarray], batch_size: int, method: str
) -> Plan:
    """The plan with the range of every INT8 layer's result before its sum, as the network has them in FP32.

    Args:
        graph: the fused network, with the weights and biases that are emitted.
        plan: what becomes of it.
        batches: float32 input, at most ``batch_size`` samples each.
        batch_size: see ``collect_ranges``.
        method: the calibration method.

    Raises:
        DataError: there are no batches, or results are NaN or infinite.
    """
    apart, results = _with_sums_apart(graph, plan)
    if not results:
        return plan
    found = collect_ranges(float_graph(apart), list(results.values()), batches, batch_size, method)
    return replace(plan, before_sums={tensor: found[str(result)] for tensor, result in results.items()})


def _with_sums_apart(graph: Graph, plan: Plan) -> tuple[Graph, dict[Tensor, Tensor]]:
    """The network with sums as operators of their own, and for each sum the result of its layer."""
    nodes: list[Node] = []
    results: dict[Tensor, Tensor] = {}
    for node in graph.nodes:
        unit = unit_of(node)
        if unit is None or unit.addition is None or plan.decisions[node.name].precision == "fp32":
            nodes.append(node)
            continue
        parts = unrolled(node, node.inputs, node.name, lambda wanted: graph.free_name(f"{wanted}_before_sum"))
        results[node.output] = parts[0].output
        nodes += parts
    return replace(graph, nodes=tuple(nodes)), results
