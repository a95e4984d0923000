"""What commands that train print at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Optional

from quantkit.host.threads import MOST_DECODERS
from quantkit.units import counted, percent

if TYPE_CHECKING:
    from quantkit.training.epoch import Epoch
    from quantkit.training.feed_workers import FeedWorkers

# Waiting for more of the time than this is worth a remark.
_WAITING = 0.02

Row = tuple[str, str]


def trained_row(epochs: Sequence[Epoch], wanted: int, data: str) -> Row:
    """How long a network was trained, of ``wanted`` epochs, on what."""
    return "trained", f"{counted(len(epochs), 'epoch')} of {wanted} on {data}"


def early_rows(epochs: Sequence[Epoch], wanted: int, patience: Optional[int]) -> list[Row]:
    """That a training ended early, if it did."""
    if len(epochs) >= wanted:
        return []
    return [("", f"stopped early: nothing better for {counted(patience or 0, 'epoch')}")]


def speed_rows(epochs: Sequence[Epoch], workers: Optional[FeedWorkers]) -> list[Row]:
    """How fast a network was trained, and what its feed cost.

    Args:
        epochs: those of the training.
        workers: threads that prepared batches for each process; None: it is not known.
    """
    from quantkit.training.feed_workers import enough_workers

    seconds = sum(epoch.seconds for epoch in epochs)
    waiting = sum(epoch.waited for epoch in epochs) / seconds
    rows = [
        ("speed", f"{sum(epoch.samples for epoch in epochs) / seconds:.1f} images/s"),
        ("feed", f"{percent(waiting)} of the time waiting for data"),
    ]
    enough = None if workers is None else enough_workers(workers, waiting)
    if waiting > _WAITING and enough is not None:
        enough = min(MOST_DECODERS, enough)
        rows.append(("", f"about --workers {enough} would keep up, on as many free processors"))
    return [*rows, ("time", f"{seconds / 60:.1f} minutes of training")]


def cost_rows(cost: Optional[float], resumed: int) -> list[Row]:
    """What a run has cost, if a price was given, of a training that an earlier run had begun or not."""
    return [] if cost is None else [("cost", f"{cost:.4f}{' of this run' if resumed else ''}")]
