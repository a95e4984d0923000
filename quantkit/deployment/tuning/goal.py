"""What a deployment is to be best at, and what it must keep."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Optional

from quantkit.deployment.tuning.point import Point
from quantkit.errors import UserError
from quantkit.kinds import number

# More requests per second than one process can send.
_HIGHEST = 1e5

Measure = Literal["throughput", "latency"]


@dataclass(frozen=True)
class TuningGoal:
    """What a deployment is to be best at, and what it must keep.

    Attributes:
        measure: ``throughput``, images per second; ``latency``, the median time of one image when nothing else runs.
        p99: the largest 99th percentile of the latencies of single images under load, in ms; None for any.
        rate: images per second that come one by one at random times, whatever was answered before; what counts is then
            the 99th percentile of their latencies, where throughput would. None: callers send their next request when
            their last one is answered.
        memory: the most bytes that all of its processes may have in memory; None for any.
    """

    measure: Measure = "throughput"
    p99: Optional[float] = None
    memory: Optional[int] = None
    rate: Optional[float] = None

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UserError: one cannot be used, or not with the others.
        """
        if self.measure not in ("throughput", "latency"):
            raise UserError(f"the goal is {self.measure!r}; choose throughput or latency")
        for name in ("p99", "memory", "rate"):
            value = getattr(self, name)
            if value is not None and not 0 < number(name, value, "give a number above zero") < float("inf"):
                raise UserError(f"{name} is {value!r}; give a number above zero")
        if self.rate is not None and self.rate > _HIGHEST:
            raise UserError(f"rate is {self.rate:g}; give at most {_HIGHEST:g} images/s")
        if self.measure == "latency":
            for name, what in (("p99", "bounds the latency under load"), ("rate", "is a load")):
                if getattr(self, name) is not None:
                    raise UserError(f"{name} {what}, and the goal is the latency without any; leave one of them out")

    def speed(self, point: Point) -> float:
        """How good a measurement is: images per second, or the inverse of the latency that counts, in 1/s."""
        if self.measure == "latency":
            return 1e3 / point.p50
        return point.rate if self.rate is None else 1e3 / point.p99

    def score(self, point: Point) -> float:
        """Its speed; 0 beyond the bound."""
        return 0.0 if self.p99 is not None and point.p99 > self.p99 else self.speed(point)

    def told(self, point: Point) -> str:
        """What counts of a measurement, in words."""
        if self.measure == "latency":
            return f"{point.p50:.4g} ms"
        return f"{point.rate:.4g} images/s" if self.rate is None else f"p99 {point.p99:.4g} ms"

    def best(self, points: Iterable[Point]) -> Optional[Point]:
        """The best measurement within the bound; None if there is none."""
        return max((point for point in points if self.score(point)), key=self.score, default=None)

    def allows(self, memory: int) -> bool:
        """Whether a deployment may take so many bytes."""
        return self.memory is None or memory <= self.memory

    @property
    def times(self) -> str:
        """What a ratio of speeds says, between the ratio and what it is over."""
        if self.measure == "latency":
            return "times as fast, image by image, as"
        return "times the images/s of" if self.rate is None else "times as short a p99 as"

    @property
    def facts(self) -> dict[str, str | float | int]:
        """This, as names and values."""
        facts: dict[str, str | float | int] = {"measure": self.measure}
        if self.p99 is not None:
            facts["p99_ms"] = float(self.p99)
        if self.rate is not None:
            facts["rate_per_s"] = float(self.rate)
        if self.memory is not None:
            facts["memory_bytes"] = int(self.memory)
        return facts


def nothing_keeps() -> UserError:
    """The error where nothing that was tried keeps the bounds of a goal."""
    return UserError(
        "nothing that was tried keeps the bounds of the goal; allow a larger p99 or more memory, or a longer --budget"
    )
