"""What a deployment is to be best at, and what it must keep."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Optional

from quantkit.deployment.tuning.point import Point
from quantkit.errors import UserError
from quantkit.kinds import number

Measure = Literal["throughput", "latency"]


@dataclass(frozen=True)
class TuningGoal:
    """What a deployment is to be best at, and what it must keep.

    Attributes:
        measure: ``throughput``, images per second; ``latency``, the median time of one image when nothing else runs.
        p99: the largest 99th percentile of the latencies of single images under load, in ms; None for any.
        memory: the most bytes that all of its processes may have in memory; None for any.
    """

    measure: Measure = "throughput"
    p99: Optional[float] = None
    memory: Optional[int] = None

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UserError: one cannot be used, or not with the others.
        """
        if self.measure not in ("throughput", "latency"):
            raise UserError(f"the goal is {self.measure!r}; choose throughput or latency")
        for name in ("p99", "memory"):
            value = getattr(self, name)
            if value is not None and not 0 < number(name, value, "give a number above zero") < float("inf"):
                raise UserError(f"{name} is {value!r}; give a number above zero")
        if self.p99 is not None and self.measure == "latency":
            raise UserError("p99 bounds the latency under load, where throughput is the goal; leave one of them out")

    def score(self, point: Point) -> float:
        """How good a measurement is: images per second, or the inverse of the median latency; 0 beyond the bound."""
        if self.measure == "latency":
            return 1e3 / point.p50
        return 0.0 if self.p99 is not None and point.p99 > self.p99 else point.rate

    def best(self, points: Iterable[Point]) -> Optional[Point]:
        """The best measurement within the bound; None if there is none."""
        return max((point for point in points if self.score(point)), key=self.score, default=None)

    def allows(self, memory: int) -> bool:
        """Whether a deployment may take so many bytes."""
        return self.memory is None or memory <= self.memory

    @property
    def unit(self) -> str:
        """What scores are, in words."""
        return "images/s" if self.measure == "throughput" else "images/s one by one"

    @property
    def facts(self) -> dict[str, str | float | int]:
        """This, as names and values."""
        facts: dict[str, str | float | int] = {"measure": self.measure}
        if self.p99 is not None:
            facts["p99_ms"] = float(self.p99)
        if self.memory is not None:
            facts["memory_bytes"] = int(self.memory)
        return facts
