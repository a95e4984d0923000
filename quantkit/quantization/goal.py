"""What is asked of a mixed-precision network, and the record of what was found, as bundles keep it."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal, Optional

from quantkit.errors import UserError
from quantkit.kinds import number

Measure = Literal["top-1", "agreement", "perplexity"]
"""What a drop is of: top-1 accuracy, agreement with FP32 where there are no labels, or perplexity where every step of
a sequence has one."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Goal:
    """What the network must keep.

    Attributes:
        max_drop: how much it may lose against FP32; None: anything. In points of top-1 accuracy; for detectors of mean
            average precision, for segmentation networks of mean intersection over union, and of agreement with FP32
            if images have no labels or annotations; for language models the rise of perplexity in percent.
        min_speedup: how many times as fast as the original FP32 network it must be; None: the faster the better.

    Raises:
        UserError: neither is given, or one is not a number of its kind.
    """

    max_drop: Optional[float] = None
    min_speedup: Optional[float] = None

    def __post_init__(self) -> None:
        if self.max_drop is None and self.min_speedup is None:
            raise UserError("a goal needs a max_drop, a min_speedup or both; give one")
        for name, usual in (("max_drop", "0.3"), ("min_speedup", "2.5")):
            if getattr(self, name) is not None:
                value = number(name, getattr(self, name), f"give a number, such as {usual}")
                object.__setattr__(self, name, value)
        if self.max_drop is not None and not 0 <= self.max_drop <= 100:
            raise UserError(f"a drop of at most {self.max_drop:g} was asked for; give 0 to 100, such as 0.3")
        if self.min_speedup is not None and not (isfinite(self.min_speedup) and self.min_speedup > 0):
            raise UserError(f"a speed-up of {self.min_speedup:g} was asked for; give a number above 0, such as 2.5")

    def accurate(self, drop: float) -> bool:
        """Whether a drop, in the unit of ``max_drop``, is small enough."""
        return self.max_drop is None or drop <= self.max_drop + _ROUNDING

    def fast(self, speedup: float) -> bool:
        """Whether a speed-up is large enough."""
        return self.min_speedup is None or speedup >= self.min_speedup


@dataclass(frozen=True)
class MixedPrecision:
    """How a network was chosen to meet a goal.

    Attributes:
        max_drop: as in ``Goal``.
        min_speedup: as in ``Goal``.
        met: whether the goal was met.
        layers: the layers that were returned to FP32.
        measure: what the drop is of: a ``Measure``, or the first score of the task, such as ``VOC12 mAP``; None where
            outputs are neither class scores nor for a task, which have no drop.
        drop: in the unit of ``max_drop``, on the ``images`` of ``data`` that the layers were chosen with.
        images: how many there were.
        data: the name of the images.
    """

    max_drop: Optional[float]
    min_speedup: Optional[float]
    met: bool
    layers: tuple[str, ...]
    measure: Optional[str]
    drop: Optional[float]
    images: int
    data: str
