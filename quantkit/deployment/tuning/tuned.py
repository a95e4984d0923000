"""What a search for the fastest deployment has found, and what it has measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Optional

from quantkit.benchmark.results.statistics import Ratio, paired_ratio
from quantkit.deployment.tuning.contestant import Contestant
from quantkit.deployment.tuning.goal import TuningGoal
from quantkit.deployment.tuning.point import Point


@dataclass(frozen=True, eq=False)
class Trial:
    """A contestant, what was measured of it, its bytes in memory, or why it could not run."""

    contestant: Contestant
    points: tuple[Point, ...] = ()
    memory: int = 0
    problem: str = ""


@dataclass(frozen=True, eq=False)
class Setting:
    """What changing one setting brought, as a ratio of scores, and whether it was kept."""

    name: str
    ratio: Ratio
    kept: bool


@dataclass(frozen=True, eq=False)
class Finalist:
    """A contestant of the last comparison, under its best load: a measurement of each round."""

    contestant: Contestant
    points: tuple[Point, ...]
    memory: int

    @property
    def rate(self) -> float:
        """The mean images per second of all rounds."""
        return mean(point.rate for point in self.points)

    @property
    def p50(self) -> float:
        """The median over rounds of their median latencies, in ms."""
        return median(point.p50 for point in self.points)

    @property
    def p99(self) -> float:
        """The median over rounds of their 99th percentiles of latencies, in ms."""
        return median(point.p99 for point in self.points)


@dataclass(frozen=True, eq=False)
class Decoded:
    """The winner with so many threads that decode image files: a measurement of each round."""

    workers: int
    points: tuple[Point, ...]

    @property
    def rate(self) -> float:
        """The mean images per second of all rounds."""
        return mean(point.rate for point in self.points)


@dataclass(frozen=True, eq=False)
class Tuned:
    """The result of a search.

    Attributes:
        goal: what was asked for.
        winner: the deployment to use: the default, unless another is better beyond doubt.
        finalists: the last comparison: the default first, then the best that was found, if it is another and ran to the
            end, then the engines by themselves.
        trials: everything that was tried.
        settings: what changing settings of the best brought.
        decoded: the winner with image files, the usual number of threads first; empty if that was not measured.
        undecoded: why it could not be measured.
        journal: what was tried, for the next search, until ``write_tuning`` has written this; None: it is not kept.
    """

    goal: TuningGoal
    winner: Finalist
    finalists: tuple[Finalist, ...]
    trials: tuple[Trial, ...]
    settings: tuple[Setting, ...]
    decoded: tuple[Decoded, ...] = ()
    undecoded: str = ""
    journal: Optional[Path] = None

    @property
    def workers(self) -> Optional[int]:
        """The threads that are to decode image files; None: the usual number, since no other is better beyond doubt."""
        better = [each for each in self.decoded[1:] if self.faster(each).low > 1]
        return max(better, key=lambda each: each.rate).workers if better else None

    def faster(self, decoded: Decoded) -> Ratio:
        """How many times as many images per second so many threads give as the usual number, in the same rounds."""
        usual = self.decoded[0].points
        return paired_ratio([point.rate for point in decoded.points], [point.rate for point in usual])

    def over(self, other: Finalist) -> Ratio:
        """How many times as good the winner is as another one, in the same rounds."""
        return compared(self.goal, self.winner.points, other.points)

    def keeps(self, finalist: Finalist) -> bool:
        """Whether a deployment keeps the bounds of the goal."""
        return keeps(self.goal, finalist)


def keeps(goal: TuningGoal, finalist: Finalist) -> bool:
    """Whether a deployment keeps the bounds of a goal."""
    return goal.allows(finalist.memory) and (goal.p99 is None or finalist.p99 <= goal.p99)


def compared(goal: TuningGoal, points: Sequence[Point], others: Sequence[Point]) -> Ratio:
    """The ratio of scores of the same rounds, whether they keep the bound or not."""
    return paired_ratio(*([goal.speed(point) for point in each] for each in (points, others)))
