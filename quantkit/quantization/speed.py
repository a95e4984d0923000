"""The record of a network that must not be slower than in FP32, as bundles keep it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Optional

from pydantic import Field, FiniteFloat, PositiveFloat

SpeedVerdict = Literal["faster", "slower", "not distinguishable"]
FloatForm = Literal["fp32_fused", "fp32"]
"""The forms of the FP32 network: with its operators fused, and as it was given."""


@dataclass(frozen=True)
class MedianInterval:
    """A median and its 95 % interval."""

    median: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat

    @property
    def verdict(self) -> SpeedVerdict:
        """What it says where it is the ratio of two speeds."""
        if self.low > 1:
            return "faster"
        return "slower" if self.high < 1 else "not distinguishable"


@dataclass(frozen=True)
class SpeedProof:
    """How fast a network with INT8 layers is beside FP32, where it must not be slower.

    Attributes:
        faster: whether INT8 was proven to be faster than either form of FP32; otherwise all layers are in FP32, fused.
        complete: whether the time sufficed to try everything.
        layers: how many layers could run in INT8.
        returned: the layers that were returned to FP32 because they are faster there.
        reference: the form of FP32 that INT8 is compared with: that over which it gains less.
        ratio: how many times as fast as the reference the network is, or was with INT8 layers where ``faster`` is
            False; from runs in turns.
        all_int8: the same of the network with all layers in INT8.
        fused: how many times as fast as unfused FP32 fused FP32 is.
        milliseconds: median times of a run: ``fp32``, ``fp32_fused``, ``all_int8``, and ``int8`` where that differs.
        rounds: how often each network was timed.
        batch: how many images a run had.
        cpu: the name of the processor.
        threads: how many threads ran.
        engine: the name of the engine that ran them; no other one was timed.
        version: the engine's.
        busy: how many cores other processes used meanwhile; None if the system does not tell.
        bindings: how often all networks were bound anew, since where their memory lies affects their speed: the
            intervals are over the medians of these. 1 in older bundles, whose intervals are over single runs.
        candidates: how many layers and groups of layers could return to FP32, and how many of these were timed by
            themselves; None in older bundles.
    """

    faster: bool
    complete: bool
    layers: Annotated[int, Field(ge=0)]
    returned: tuple[str, ...]
    reference: FloatForm
    ratio: MedianInterval
    all_int8: MedianInterval
    fused: MedianInterval
    milliseconds: Mapping[str, PositiveFloat]
    rounds: Annotated[int, Field(ge=1)]
    batch: Annotated[int, Field(ge=1)]
    cpu: str
    threads: Annotated[int, Field(ge=1)]
    engine: str
    version: str
    busy: Optional[FiniteFloat]
    bindings: Annotated[int, Field(ge=1)] = 1
    candidates: Optional[tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]] = None

    @property
    def returned_in_vain(self) -> bool:
        """Whether INT8 in every layer is proven to be faster, and the network with layers returned is not, or less."""
        proven = self.all_int8.verdict == "faster" and (not self.faster or self.all_int8.low > self.ratio.high)
        return bool(self.returned) and proven

    @property
    def latencies(self) -> dict[str, float]:
        """The median times of FP32, and of the network where it has INT8 layers."""
        times = {name: self.milliseconds[name] for name in ("fp32", "fp32_fused")}
        if self.faster:
            times["int8"] = self.milliseconds.get("int8", self.milliseconds["all_int8"])
        return times
