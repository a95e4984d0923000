"""The layers that recovery may change: convolutions that become INT8."""

from __future__ import annotations

from typing import Optional

from quantkit.fusion.unit import Unit, has_constant_weights, unit_of
from quantkit.graph.graph import Graph, Node
from quantkit.quantization.plan import Plan


def int8_convolution(graph: Graph, plan: Plan, node: Optional[Node]) -> Optional[Unit]:
    """The convolution that this node is, if it becomes INT8."""
    unit = unit_of(node)
    if unit is None or not unit.is_convolution or not has_constant_weights(graph.params, unit):
        return None
    return unit if plan.decisions[unit.node.name].precision == "int8" else None
