"""What became of each of the user's operators, by its original name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from quantkit.fusion.fuse import Fused
from quantkit.ir.graph import Graph
from quantkit.ir.recurrent_layer import REPORTED_NAMES
from quantkit.quantization.plan import Decision, QuantizationPlan

_MOVES = frozenset({"SwapAxis", "transpose", "Reshape", "Flatten", "Concat"})


@dataclass(frozen=True)
class Explanation:
    """One original operator; of recurrent layers that were taken apart there is one for each part.

    ``into`` is the operator of the new network that computes it, empty where nothing does any more;
    ``precision`` is ``int8``, ``fp32`` or ``gone``; ``reason`` says why it stays FP32 or why it is
    gone; ``rejections`` say which fusions did not take place here, and why (of several parts at the first).
    """

    node: str
    operator: str
    into: str
    precision: Literal["int8", "fp32", "gone"]
    reason: str
    rejections: tuple[str, ...]


def explain(fused: Fused, plan: QuantizationPlan, inputs: Collection[str] = ()) -> tuple[Explanation, ...]:
    """Account for every operator of the original network, in its order, but for those that stand for ``inputs``.

    Those that put parameters together, such as the reshapes before an LSTM of Gluon's, are left out where they are
    gone: what they compute is a parameter of the new network.
    """
    into: dict[str, list[Decision]] = {}
    for decision in plan.decisions.values():
        for origin in decision.origin:
            into.setdefault(origin, []).append(decision)
    dropped = {origin: applied.rule for applied in fused.applied for origin in applied.origin}
    rows = []
    of_parameters = _of_parameters(fused.original)
    for node in fused.original.nodes:
        if node.name in inputs or (node.name in of_parameters and node.name not in into):
            continue
        rejections = tuple(
            f"{rejection.rule}: {rejection.reason}" for rejection in fused.rejected if rejection.node == node.name
        )
        if node.name not in into:
            rows.append(
                Explanation(node.name, node.op, "", "gone", dropped.get(node.name, "no output needs it"), rejections)
            )
        for number, each in enumerate(_computing(into.get(node.name, ()))):
            own = rejections if number == 0 else ()
            rows.append(Explanation(node.name, node.op, each.node, each.precision, each.reason, own))
    return tuple(rows)


def _of_parameters(graph: Graph) -> set[str]:
    """The names of the operators that read parameters, and nothing but parameters and one another."""
    names: set[str] = set()
    for node in graph.nodes:
        if node.inputs and all(tensor.node in graph.params or tensor.node in names for tensor in node.inputs):
            names.add(node.name)
    return names


def _computing(decisions: Sequence[Decision]) -> Sequence[Decision]:
    """Of the operators that stand for one, those that compute: recurrent layers, or one that moves no values.

    That is the first that stays FP32, if one does.
    """
    recurrent = [each for each in decisions if each.operator in REPORTED_NAMES.values()]
    return recurrent or sorted(decisions, key=lambda each: (each.operator in _MOVES, each.is_int8))[:1]
