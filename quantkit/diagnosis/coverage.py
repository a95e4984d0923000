"""How much of a network runs in INT8, as a plan says, or told from its structure without samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quantkit.calibration.ranges import Range
from quantkit.calibration.table import CalibrationTable
from quantkit.fusion.fuse import Fused, fuse
from quantkit.ir.macs import macs
from quantkit.models.model import Model
from quantkit.quantization.plan import Decision
from quantkit.quantization.planning import calibration_targets, make_plan


@dataclass(frozen=True)
class Left:
    """Layers that stay in FP32 for one reason, and their multiply-accumulates."""

    reason: str
    layers: int
    macs: int


@dataclass(frozen=True)
class Coverage:
    """What a network computes for one input, and how much of it in INT8.

    Attributes:
        parameters: their values.
        layers: convolutions, transposed ones, dense and recurrent layers.
        int8_layers: how many of them run in INT8.
        macs: multiply-accumulates of the layers.
        int8_macs: those of the layers in INT8.
        left: the layers in FP32 by reason, most multiply-accumulates first.
    """

    parameters: int
    layers: int
    int8_layers: int
    macs: int
    int8_macs: int
    left: tuple[Left, ...] = ()

    @property
    def share(self) -> float:
        """The share of multiply-accumulates in INT8."""
        return self.int8_macs / self.macs if self.macs else 0.0


def coverage(fused: Fused, decisions: Iterable[Decision]) -> Coverage:
    """How much of a fused network runs in INT8 according to a plan's decisions."""
    counts = macs(fused.original, fused.shapes)
    # A block that is applied twice names its layers twice.
    given = {node.name: node.origin[0] if node.origin else node.name for node in fused.original.nodes}
    deciding: dict[str, list[Decision]] = {given[name]: [] for name in counts}
    for decision in decisions:
        for name in deciding.keys() & decision.origin:
            deciding[name].append(decision)
    reasons = {name: _reason(fused, deciding[given[name]]) for name in counts}
    in_float = {name: reason for name, reason in reasons.items() if reason}
    layers, work = Counter(in_float.values()), Counter[str]()
    for name, reason in in_float.items():
        work[reason] += counts[name]
    return Coverage(
        parameters=sum(value.size for value in fused.original.params.values()),
        layers=len(counts),
        int8_layers=len(counts) - len(in_float),
        macs=sum(counts.values()),
        int8_macs=sum(counts[name] for name in counts.keys() - in_float.keys()),
        left=tuple(Left(reason, layers[reason], amount) for reason, amount in work.most_common()),
    )


def planned_coverage(model: Model) -> Coverage:
    """How much of a model would run in INT8; ranges are taken for ordinary ones, and nothing is run.

    Raises:
        EngineError: the network does not accept its input shape.
    """
    fused = fuse(model.graph, model.input_shape)
    ranges = {str(tensor): Range(-1.0, 1.0) for tensor in calibration_targets(fused.graph)}
    plan = make_plan(fused, CalibrationTable("minmax", 1, "none", ranges, "", ""), model.exclude)
    return coverage(fused, plan.decisions.values())


def _reason(fused: Fused, deciding: Sequence[Decision]) -> str:
    """Why a layer stays in FP32, in whole or in part; empty if it does not.

    Operators without weights that were put around a layer, such as a reshape, do not count.
    """
    graph = fused.graph
    weighted = [each for each in deciding if any(read.node in graph.params for read in graph.by_name[each.node].inputs)]
    reasons = (each.reason for each in weighted or deciding if not each.is_int8)
    return next(reasons, "" if deciding else "no operator of the fused network stands for it")
