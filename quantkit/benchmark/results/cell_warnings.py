"""What makes the figures of a cell less sure than they look."""

from __future__ import annotations

import numpy as np

from quantkit.benchmark.results.results import Cell

# Cores' worth of work above which others disturb what is measured.
STOLEN, BUSY = 0.03, 0.1
UNTOLD = "the system does not tell whether others used the same processors meanwhile"
_FEW_ROUNDS, _FEW_REQUESTS = 5, 10
_ENOUGH_TO_TELL = 6


def disturbances(cell: Cell) -> tuple[str, ...]:
    """What others did to this cell while it was measured, the cell's own warnings first."""
    found = list(cell.warnings)
    if not cell.rounds:
        return tuple(found)
    loads = _told(cell)
    # Ticks are coarse: only the mean of many rounds means something.
    return (*found, *disturbing(*map(float, np.mean(loads, axis=0)))) if loads else tuple(found)


def _told(cell: Cell) -> list[tuple[float, float]]:
    """What the hypervisor took and others used in each round of which the system tells."""
    return [(turn.stolen, turn.busy) for turn in cell.rounds if turn.stolen is not None and turn.busy is not None]


def disturbing(stolen: float, busy: float) -> tuple[str, ...]:
    """In words what the hypervisor and other processes took meanwhile, in cores, where it is enough to disturb."""
    found = []
    if stolen > STOLEN:
        found.append(f"the hypervisor took {stolen:.2f} cores of processor time meanwhile")
    if busy > BUSY:
        found.append(f"other processes used {busy:.2f} cores on the same processors meanwhile")
    return tuple(found)


def warnings(cell: Cell) -> tuple[str, ...]:
    """What makes this cell's figures less sure than they look, disturbances first."""
    found = list(disturbances(cell))
    if not cell.rounds:
        return tuple(found)
    if not _told(cell):
        found.append(UNTOLD)
    # Slow networks are warmed with less than it takes to tell; few samples are reported below.
    unsteady = sum(not each.steady for each in cell.warm_up if len(each.durations) >= _ENOUGH_TO_TELL)
    if unsteady:
        found.append(f"not steady when measuring began: {unsteady} of {len(cell.warm_up)} instances")
    requests = sum(len(ticks.ends) for turn in cell.rounds for ticks in turn.instances)
    if len(cell.rounds) < _FEW_ROUNDS or requests < _FEW_REQUESTS:
        found.append(f"few samples: {requests} requests in {len(cell.rounds)} rounds")
    return tuple(found)
