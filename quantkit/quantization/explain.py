"""What became of each of the user's operators, by its original name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from quantkit.fusion.fuse import Fused
from quantkit.quantization.plan import QuantizationPlan

_MOVES = frozenset({"SwapAxis", "transpose", "Reshape", "Flatten"})


@dataclass(frozen=True)
class Explanation:
    """One original operator.

    ``into`` is the operator of the new network that computes it, empty where nothing does any more;
    ``precision`` is ``int8``, ``fp32`` or ``gone``; ``reason`` says why it stays FP32 or why it is
    gone; ``rejections`` say which fusions did not take place here, and why.
    """

    node: str
    operator: str
    into: str
    precision: Literal["int8", "fp32", "gone"]
    reason: str
    rejections: tuple[str, ...]


def explain(fused: Fused, plan: QuantizationPlan) -> tuple[Explanation, ...]:
    """Account for every operator of the original network, in its order."""
    # Of several operators that stand for one, the first that does more than move values computes.
    by_rank = sorted(plan.decisions.values(), key=lambda decision: decision.operator in _MOVES)
    into = {origin: decision for decision in reversed(by_rank) for origin in decision.origin}
    dropped = {origin: applied.rule for applied in fused.applied for origin in applied.origin}
    rows = []
    for node in fused.original.nodes:
        rejections = tuple(
            f"{rejection.rule}: {rejection.reason}" for rejection in fused.rejected if rejection.node == node.name
        )
        decision = into.get(node.name)
        if decision is None:
            rows.append(
                Explanation(node.name, node.op, "", "gone", dropped.get(node.name, "no output needs it"), rejections)
            )
        else:
            rows.append(Explanation(node.name, node.op, decision.node, decision.precision, decision.reason, rejections))
    return tuple(rows)
