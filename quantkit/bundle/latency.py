"""The latency of a network in FP32, unfused and fused, and in INT8, each at batch size 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.evaluation.latency import latencies_in_turns, median_latencies, speed_against_fp32
from quantkit.fusion.fused_model import FusedModel
from quantkit.kinds import of_kind
from quantkit.quantization.speed import FloatForm, MedianInterval


@dataclass(frozen=True)
class Latency:
    """How long a run of a network takes, and how fast INT8 is beside FP32.

    Attributes:
        milliseconds: median latencies in ms: ``fp32``, ``fp32_fused``, and ``int8``, the network as it was quantized;
            where a network is proven not to be faster in INT8, a proof has the first two alone.
        reference: the form of FP32 that INT8 is compared with: that over which it gains less.
        ratio: how many times as fast as the reference INT8 is; from the same runs.
    """

    milliseconds: Mapping[str, float]
    reference: FloatForm
    ratio: MedianInterval


def float_latencies(source: FusedModel) -> dict[str, float]:
    """The median latency in ms of the network unfused and fused, run in turns."""
    return median_latencies({"fp32": source.model.graph, "fp32_fused": source.graph}, source.sample)


def measure_latency(quantized: QuantizedModel) -> Latency:
    """Measure the latency of a network unfused, fused and in INT8, in turns, with one sample a run.

    It takes some seconds. ``ratio.verdict`` is ``slower`` where INT8 is slower than FP32 on this machine.

    Args:
        quantized: the network.

    Raises:
        UserError: it is of another type.
        EngineError: the engine cannot run it.
    """
    of_kind("quantized", quantized, QuantizedModel, "from quantize() or lower()")
    source = quantized.source
    networks = {"fp32": source.model.graph, "fp32_fused": source.graph, "int8": quantized.graph}
    times = latencies_in_turns(networks, source.sample)
    return Latency(
        {name: float(np.median(each)) for name, each in times.items()}, *speed_against_fp32(times, times["int8"])
    )
