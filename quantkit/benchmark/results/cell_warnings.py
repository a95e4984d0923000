"""Warnings that make the figures of a cell doubtful."""

from __future__ import annotations

import numpy as np

from quantkit.benchmark.results.results import Cell

# Cores' worth of work above which others disturb what is measured.
STOLEN, BUSY = 0.03, 0.1
UNTOLD = "the system does not tell whether others used the same processors meanwhile"
_FEW_ROUNDS, _FEW_REQUESTS = 5, 10
_ENOUGH_TO_TELL = 6


def disturbances(cell: Cell) -> tuple[str, ...]:
    """Disturbances of this cell by others during its measurement, the cell's own warnings first."""
    texts = list(cell.warnings)
    if not cell.rounds:
        return tuple(texts)
    loads = _told(cell)
    # Ticks are coarse: only the mean of many rounds is meaningful.
    return (*texts, *disturbing(*map(float, np.mean(loads, axis=0)))) if loads else tuple(texts)


def _told(cell: Cell) -> list[tuple[float, float]]:
    """The cores that the hypervisor took and that others used, in each round for which the system shows them."""
    return [(turn.stolen, turn.busy) for turn in cell.rounds if turn.stolen is not None and turn.busy is not None]


def disturbing(stolen: float, busy: float) -> tuple[str, ...]:
    """Warnings about the cores that the hypervisor and other processes took, if these are enough to disturb."""
    texts = []
    if stolen > STOLEN:
        texts.append(f"the hypervisor took {stolen:.2f} cores of processor time meanwhile")
    if busy > BUSY:
        texts.append(f"other processes used {busy:.2f} cores on the same processors meanwhile")
    return tuple(texts)


def warnings(cell: Cell) -> tuple[str, ...]:
    """All warnings about this cell's figures, disturbances first."""
    texts = list(disturbances(cell))
    if not cell.rounds:
        return tuple(texts)
    if not _told(cell):
        texts.append(UNTOLD)
    # Slow networks warm up in too few runs to decide; few samples are reported below.
    unsteady = sum(not each.steady for each in cell.warm_up if len(each.durations) >= _ENOUGH_TO_TELL)
    if unsteady:
        texts.append(f"not steady when measuring began: {unsteady} of {len(cell.warm_up)} instances")
    requests = sum(len(ticks.ends) for turn in cell.rounds for ticks in turn.instances)
    if len(cell.rounds) < _FEW_ROUNDS or requests < _FEW_REQUESTS:
        texts.append(f"few samples: {requests} requests in {len(cell.rounds)} rounds")
    return tuple(texts)
