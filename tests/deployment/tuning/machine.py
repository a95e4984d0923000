"""A machine on which the speed of every contestant of a search is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional

from quantkit.bundle import Bundle
from quantkit.deployment.streams import Streams
from quantkit.deployment.tuning.contestant import Contestant
from quantkit.deployment.tuning.goal import TuningGoal
from quantkit.deployment.tuning.point import FILES, Load, Point
from quantkit.deployment.tuning.search import tune
from quantkit.deployment.tuning.tuned import Tuned
from quantkit.errors import DataError

Speed = Callable[[Contestant, Load], float]

STREAMS = Streams(2, batch=4)
THROUGHPUT = TuningGoal()


class Machine:
    """What runs here, how fast, in how many bytes, and with which p99 in ms: that of callers, unless told otherwise."""

    def __init__(self, speed: Speed) -> None:
        self.speed = speed
        self.memory: Callable[[Contestant], int] = lambda contestant: 1000
        self.p99: Speed = lambda contestant, load: float(load.callers)
        self.started: list[Contestant] = []
        self.interrupt_at: Optional[int] = None
        # Images per second by the number of threads that decode them; files are damaged for others.
        self.decoding: Mapping[int, float] = {}

    def running(self, contestant: Contestant) -> Running:
        self.started.append(contestant)
        if self.interrupt_at == len(self.started):
            raise KeyboardInterrupt
        return Running(self, contestant)


class Running:
    parallel = 1

    def __init__(self, machine: Machine, contestant: Contestant) -> None:
        self.machine, self.contestant, self.measured = machine, contestant, 0

    def measure(self, load: Load, seconds: float) -> Point:
        self.measured += 1
        # Readings differ, as real ones do.
        rate = self.machine.speed(self.contestant, load) * (1 + 0.001 * (self.measured % 3))
        return Point(load, rate, 1e3 / rate, self.machine.p99(self.contestant, load), 10)

    def decode(self, workers: int, seconds: float) -> Point:
        if workers not in self.machine.decoding:
            raise DataError("a.png is damaged")
        return Point(FILES, self.machine.decoding[workers], 1.0, 1.0, 10)

    def memory(self) -> int:
        return self.machine.memory(self.contestant)

    def close(self) -> None:
        pass

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def tuned(bundle: Bundle, goal: TuningGoal = THROUGHPUT, **options: Any) -> Tuned:
    return tune([bundle], goal, 0.001, **options)


def by_engine(mxnet: float, openvino: float) -> Speed:
    return lambda contestant, load: mxnet if contestant.engine == "mxnet" else openvino
