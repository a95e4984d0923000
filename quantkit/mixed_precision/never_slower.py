"""Never slower than FP32: return layers by timing whole networks, and prove what results against FP32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from time import monotonic
from typing import Optional

import numpy as np

from quantkit.backends.base import session_threads
from quantkit.backends.registry import MXNET
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.evaluation.latency import latencies_in_turns, median_interval, paired_speed, speed_against_fp32
from quantkit.fusion.fused_model import FusedModel
from quantkit.host.cpu import read_cpu
from quantkit.host.load import with_load_of_others
from quantkit.ir.graph import Graph
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.mixed_precision.busy import warn_of_disturbance, warn_of_load
from quantkit.mixed_precision.choose import Layers
from quantkit.mixed_precision.faster import SCREENING, Gain, Step, faster_layers, reasons
from quantkit.mixed_precision.kept_in_fp32 import kept_in_fp32
from quantkit.mixed_precision.measurements import Budget
from quantkit.mixed_precision.speed_candidates import speed_candidates
from quantkit.progress import Progress, silent
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.speed import SpeedProof

# What a timing takes at least and at most; between them, as long as the budget allows for all candidates.
_LEAST_SECONDS, _MOST_SECONDS = 0.4, 1.0
_PROOF_SECONDS = 12.0
# The fewest whose median has a 95 % interval.
_BINDINGS = 6

_ADVICE = "quantize on an idle machine"


@dataclass(frozen=True, eq=False)
class SpeedSearch:
    """The layers that are faster in FP32.

    Attributes:
        all_int8: the network before any layer was returned.
        plan: the plan with those layers in FP32.
        returned: each of them with the step that returned it.
        candidates: how many layers and groups there were, and how many of these were timed.
        complete: whether the budget sufficed for all timings.
    """

    all_int8: QuantizedGraph
    plan: QuantizationPlan
    returned: Mapping[str, Step]
    candidates: tuple[int, int]
    complete: bool


def search_speed(
    source: FusedModel, plan: QuantizationPlan, minutes: float, batch: int = 1, progress: Progress = silent
) -> SpeedSearch:
    """Find the layers that are faster in FP32 on this machine, with all conversions that this takes.

    Whole networks are timed in turns. Neither samples nor trained weights are needed.

    Args:
        source: the fused model.
        plan: what becomes INT8 at most.
        minutes: how long to search. The timing at hand is finished.
        batch: how many images a run has.
        progress: wraps streams of steps.

    Raises:
        EngineError: this environment's engine cannot run INT8.
    """
    network = QuantizedGraph(source.fused.graph, plan)
    groups = speed_candidates(network)
    timed = _ChangeTimer(network, _images(source, batch), 60 * minutes * SCREENING / max(1, len(groups)))
    if groups:
        warn_of_load(_ADVICE)
    budget = Budget(60 * minutes)
    choice = faster_layers(groups, timed, lambda: budget.spent, progress)
    mixed = kept_in_fp32(network, choice.returned.keys(), reasons(choice.returned))
    return SpeedSearch(network, mixed.plan, choice.returned, (len(groups), choice.measured), choice.complete)


class _ChangeTimer:
    """Times changes of the layers in FP32, each for as long as the budget allows.

    The first timing shows what each takes besides: lowering, binding, warming up and a least number of rounds.
    """

    def __init__(self, network: QuantizedGraph, image: np.ndarray, affordable: float) -> None:
        self._image, self._affordable = image, affordable
        self._besides: Optional[float] = None

        @lru_cache(maxsize=2)
        def lowered(layers: Layers) -> Graph:
            return int8_graph(kept_in_fp32(network, layers))

        self._lowered = lowered

    def __call__(self, before: Layers, after: Layers) -> Gain:
        """Time the networks before and after a change, in turns."""
        seconds = min(max(self._affordable - (self._besides or 0.0), _LEAST_SECONDS), _MOST_SECONDS)
        # Lowered in the first timing alone, which is the one that is measured.
        unchanged = self._lowered(before)
        begun = monotonic()
        networks = {"before": unchanged, "after": self._lowered(after)}
        times = latencies_in_turns(networks, self._image, seconds, lead=1)
        if self._besides is None:
            self._besides = max(0.0, monotonic() - begun - seconds)
        saved = median_interval(times["before"] - times["after"])
        return Gain(saved.median, saved.low, saved.high, float(np.median(times["before"])))


def prove_speed(quantized: QuantizedModel, search: SpeedSearch, batch: int = 1) -> SpeedProof:
    """Time a network anew against unfused and fused FP32, after a search for its layers.

    Bound anew, the same network may be some percent faster or slower. Therefore all networks are bound several times,
    and the intervals are over these. A ``BusyWarning`` tells that other processes disturbed the timing.

    Args:
        quantized: the network that was made of the search's plan.
        search: the search.
        batch: how many images a run has.
    """
    source, cpu = quantized.source, read_cpu()
    networks = {"fp32": source.model.graph, "fp32_fused": source.graph}
    in_fp32 = not quantized.network.int8_weighted
    if _int8(quantized.plan) == _int8(search.all_int8.plan):
        networks["all_int8"] = quantized.graph
    else:
        networks["all_int8"] = int8_graph(search.all_int8)
        if not in_fp32:
            networks["int8"] = quantized.graph
    seconds = _PROOF_SECONDS / _BINDINGS
    timed = partial(latencies_in_turns, networks, _images(source, batch), seconds, lead=1)
    bound, load = with_load_of_others(lambda: [timed() for _ in range(_BINDINGS)], cpu.usable)
    busy = None if load is None else max(0.0, load.busy)
    warn_of_disturbance(busy, "the speed", _ADVICE)
    times = {name: np.array([np.median(each[name]) for each in bound]) for name in networks}
    reference, ratio = speed_against_fp32(times, times.get("int8", times["all_int8"]))
    return SpeedProof(
        faster=not in_fp32 and ratio.verdict == "faster",
        complete=search.complete,
        layers=len(search.all_int8.int8_weighted),
        returned=tuple(search.returned),
        reference=reference,
        ratio=ratio,
        all_int8=paired_speed(times[reference], times["all_int8"]),
        fused=paired_speed(times["fp32"], times["fp32_fused"]),
        milliseconds={name: float(np.median(each)) for name, each in times.items()},
        rounds=sum(len(each["fp32"]) for each in bound),
        batch=batch,
        cpu=cpu.model,
        threads=session_threads(),
        engine=MXNET.name,
        version=MXNET.backend().version(),
        busy=busy,
        bindings=_BINDINGS,
        candidates=search.candidates,
    )


def all_in_fp32(network: QuantizedGraph, proof: SpeedProof) -> QuantizationPlan:
    """The plan with every layer in FP32, because INT8 was not proven to be faster."""
    ratio, form = proof.ratio, "fused" if proof.reference == "fp32_fused" else "unfused"
    reason = (
        f"returned to FP32: with INT8 the network is {ratio.median:.3g} times as fast as {form} FP32 "
        f"[{ratio.low:.3g}, {ratio.high:.3g}] where it was quantized, not faster"
    )
    layers = [node.name for node in network.int8_weighted]
    return kept_in_fp32(network, layers, dict.fromkeys(layers, reason)).plan


def with_proof(quantized: QuantizedModel, proof: SpeedProof, minutes: float) -> QuantizedModel:
    """The network with its proof, and what was asked for in its configuration."""
    config = replace(quantized.config, never_slower=True, speed_batch=proof.batch, search_minutes=minutes)
    return replace(quantized, config=config, speed=proof)


def _int8(plan: QuantizationPlan) -> list[str]:
    return [name for name, decision in plan.decisions.items() if decision.is_int8]


def _images(source: FusedModel, batch: int) -> np.ndarray:
    return np.repeat(source.sample, batch, axis=0)
