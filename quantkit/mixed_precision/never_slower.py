"""INT8 only where it is faster: choose the layers by timing networks, and prove the whole against fused FP32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.evaluation.latency import latencies_in_turns, median_interval, paired_speed
from quantkit.fusion.fused_model import FusedModel
from quantkit.host.cpu import read_cpu
from quantkit.ir.graph import Graph
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.mixed_precision.busy import warn_of_load
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
    groups, image = speed_candidates(network), _images(source, batch)

    affordable = 60 * minutes * SCREENING / max(1, len(groups))
    seconds = min(max(affordable, _LEAST_SECONDS), _MOST_SECONDS)

    @lru_cache(maxsize=2)
    def lowered(layers: Layers) -> Graph:
        return int8_graph(kept_in_fp32(network, layers))

    def timed(before: Layers, after: Layers) -> Gain:
        networks = {"before": lowered(before), "after": lowered(after)}
        times = latencies_in_turns(networks, image, seconds, lead=1)
        saved = median_interval(times["before"] - times["after"])
        return Gain(saved.median, saved.low, saved.high, float(np.median(times["before"])))

    if groups:
        warn_of_load("quantize on an idle machine")
    budget = Budget(60 * minutes)
    choice = faster_layers(groups, timed, lambda: budget.spent, progress)
    mixed = kept_in_fp32(network, choice.returned.keys(), reasons(choice.returned))
    return SpeedSearch(network, mixed.plan, choice.returned, (len(groups), choice.measured), choice.complete)


def prove_speed(quantized: QuantizedModel, search: SpeedSearch, batch: int = 1) -> SpeedProof:
    """Time a network anew against fused FP32, after a search for its layers.

    Args:
        quantized: the network that was made of the search's plan.
        search: the search.
        batch: how many images a run has.
    """
    source = quantized.source
    networks = {"fp32": source.model.graph, "fp32_fused": source.graph}
    in_fp32 = not quantized.network.int8_weighted
    if _int8(quantized.plan) == _int8(search.all_int8.plan):
        networks["all_int8"] = quantized.graph
    else:
        networks["all_int8"] = int8_graph(search.all_int8)
        if not in_fp32:
            networks["int8"] = quantized.graph
    times = latencies_in_turns(networks, _images(source, batch), _PROOF_SECONDS, lead=1)
    ratios = {name: paired_speed(times["fp32_fused"], each) for name, each in times.items()}
    ratio, cpu = ratios.get("int8", ratios["all_int8"]), read_cpu()
    return SpeedProof(
        not in_fp32 and ratio.verdict == "faster",
        search.complete,
        len(search.all_int8.int8_weighted),
        tuple(search.returned),
        ratio,
        ratios["all_int8"],
        {name: float(np.median(each)) for name, each in times.items()},
        len(times["fp32"]),
        batch,
        cpu.model,
        len(cpu.usable),
    )


def all_in_fp32(network: QuantizedGraph, proof: SpeedProof) -> QuantizationPlan:
    """The plan with every layer in FP32, because INT8 was not proven to be faster."""
    ratio = proof.ratio
    reason = (
        f"returned to FP32: with INT8 the network is {ratio.median:.3g} times as fast as fused FP32 "
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
