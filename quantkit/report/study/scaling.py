"""The scaling of throughput over instances, from contestants that differ only in their placement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quantkit.benchmark.results.results import DEFAULT_SETTINGS, Cell
from quantkit.benchmark.results.statistics import Ratio, ratio
from quantkit.report.study.summary import Study


@dataclass(frozen=True)
class Point:
    """One placement: ``speedup`` over the smallest one, and the ``ideal`` one, proportional to the threads.

    ``threads`` is the number of threads of all instances together.
    """

    contestant: str
    policy: str
    instances: int
    threads: int
    speedup: Ratio
    ideal: float

    @property
    def efficiency(self) -> float:
        """The share of the ideal speed-up that is reached."""
        return self.speedup.value / self.ideal


@dataclass(frozen=True)
class Scaling:
    """The placements of one variant on one build, ascending by threads, then by instances."""

    network: str
    batch: int
    build: str
    variant: str
    points: tuple[Point, ...]


def scalings(study: Study) -> tuple[Scaling, ...]:
    """All groups of at least two contestants that differ only in their placement, measured for throughput."""
    groups: dict[tuple[str, int, str, str], list[Cell]] = {}
    for cell in study.cells.values():
        who = cell.contestant
        if cell.scenario == "throughput" and who.settings == DEFAULT_SETTINGS:
            groups.setdefault((cell.network, cell.batch, who.build, who.variant), []).append(cell)
    return tuple(Scaling(*group, _points(cells)) for group, cells in groups.items() if len(cells) > 1)


def _points(cells: Sequence[Cell]) -> tuple[Point, ...]:
    ordered = sorted(cells, key=lambda cell: (_threads(cell), len(cell.placements)))
    smallest = ordered[0]
    return tuple(
        Point(
            cell.contestant.name,
            cell.contestant.policy,
            len(cell.placements),
            _threads(cell),
            ratio(cell, smallest, "throughput"),
            _threads(cell) / _threads(smallest),
        )
        for cell in ordered
    )


def _threads(cell: Cell) -> int:
    return sum(placement.threads for placement in cell.placements)
