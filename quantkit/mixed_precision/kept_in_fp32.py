"""Mixed precision: a plan with some of its INT8 layers returned to FP32."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Optional

from quantkit.errors import UserError
from quantkit.quantization.quantized_graph import QuantizedGraph, has_weights

KEPT = "kept in FP32 for accuracy"
"""The reason for a decision to return a layer to FP32."""


def kept_in_fp32(
    network: QuantizedGraph, layers: Collection[str], reasons: Optional[Mapping[str, str]] = None
) -> QuantizedGraph:
    """The network with ``layers`` in FP32.

    Operators without weights (pooling, sums, concatenations) follow if all their inputs are then FP32.
    All other decisions, and the integer forms of the tensors, do not change.

    Args:
        network: the quantized network.
        layers: names of layers that run in INT8.
        reasons: why, by layer; ``KEPT`` where there is none.

    Raises:
        UserError: one of ``layers`` does not run in INT8.
    """
    if unknown := sorted(set(layers) - {node.name for node in network.int8_weighted}):
        raise UserError(f"{unknown[0]!r} is not a layer that runs in INT8, so it cannot be returned to FP32")
    decisions = dict(network.plan.decisions)
    for node in network.graph.nodes:
        decision = decisions[node.name]
        if not decision.is_int8:
            continue
        producers = [decisions.get(tensor.node) for tensor in node.inputs if tensor.node not in network.graph.params]
        if node.name in layers:
            decisions[node.name] = replace(decision, precision="fp32", reason=(reasons or {}).get(node.name, KEPT))
        elif not has_weights(node) and not any(made is not None and made.is_int8 for made in producers):
            decisions[node.name] = replace(decision, precision="fp32", reason="all that it reads is FP32")
    return replace(network, plan=replace(network.plan, decisions=decisions))
