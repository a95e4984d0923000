"""Streams: a network that runs several times at once in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from quantkit.backends.base import session_threads
from quantkit.errors import UserError
from quantkit.kinds import seconds, whole_number

# Threads of all streams; larger machines than any have fewer cores.
_MOST = 4096


@dataclass(frozen=True)
class Streams:
    """Parallel runs of a network in this process, for ONNX Runtime and OpenVINO.

    Those of one thread share the weights, in OpenVINO all do. Images reach them without being copied, and they end with
    the process. A crash of the engine ends all of them, where it would end one of several ``Instances``, and nothing
    binds them to cores.

    Attributes:
        number: how many; None: as many as there are cores for ``threads`` each.
        threads: the engine's threads of each.
        batch: the most samples that each computes at once.
        window: how long an idle one waits for a full batch, in seconds.
    """

    number: Optional[int] = None
    threads: int = 1
    batch: int = 8
    window: float = 0.0

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UserError: one cannot be used.
        """
        if self.number is not None:
            object.__setattr__(self, "number", whole_number("number", self.number, 1, 2))
        object.__setattr__(self, "threads", whole_number("threads", self.threads, 1, 2))
        object.__setattr__(self, "batch", whole_number("batch", self.batch, 1))
        if self.count * self.threads > _MOST:
            raise UserError(
                f"{self.count} streams of {self.threads} threads are too many; give at most {_MOST} threads"
            )
        object.__setattr__(self, "window", seconds("window", self.window))

    @property
    def count(self) -> int:
        """How many there are on this machine."""
        return self.number or max(1, session_threads() // self.threads)
