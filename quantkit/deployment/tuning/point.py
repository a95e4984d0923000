"""One measurement: under which load, and what came out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from quantkit.deployment.inputs import LARGEST_BATCH


@dataclass(frozen=True)
class Load:
    """``callers`` that each send requests of ``batch`` images, one after the other.

    With a ``rate``, requests per second come at random times instead, and so many are served at a time.
    """

    batch: int
    callers: int
    rate: Optional[float] = None

    def __str__(self) -> str:
        images = "1 image" if self.batch == 1 else f"{self.batch} images"
        if self.rate is not None:
            return f"{images} {self.rate:g} times per second, at random times"
        return f"{images} at a time" if self.callers == 1 else f"{images} from each of {self.callers} callers"


FILES = Load(LARGEST_BATCH, 1)
"""Image files in batches, one after the other."""


@dataclass(frozen=True)
class Point:
    """What was measured under a load: images per second, and percentiles of the latencies of requests, in ms."""

    load: Load
    rate: float
    p50: float
    p99: float
    requests: int
