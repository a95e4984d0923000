"""What commands that train print after each epoch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Optional

import click

from quantkit.cli.terminal import Terminal
from quantkit.progress import T
from quantkit.units import percent

if TYPE_CHECKING:
    from quantkit.training.epoch import Epoch

HOUR = 3600.0
"""Seconds."""


def check_name(out: Path) -> None:
    """Refuse a result beside which nothing can be named after it.

    Raises:
        UsageError: it has no name of its own.
    """
    if not out.name:
        raise click.UsageError(f"--out {out} has no name of its own; give a folder with one, such as {out / 'trained'}")


def checkpoint_beside(terminal: Terminal, out: Path, restart: bool) -> Path:
    """The file beside a result that holds a training under way, checked before the work; see ``check_file_target``."""
    from quantkit.cli.targets import check_file_target

    checkpoint = out.with_name(f"{out.name}.checkpoint")
    check_file_target(checkpoint, True, make_folder=True)
    if checkpoint.exists() and not restart:
        terminal.work.kept = f"{checkpoint} holds what an earlier run did; the same command goes on from there"
    return checkpoint


def remove_checkpoint(terminal: Terminal, checkpoint: Path) -> None:
    """Remove the file of a training whose result is complete, or warn that it stays."""
    try:
        checkpoint.unlink(missing_ok=True)
    except OSError as error:
        terminal.warn(f"cannot remove {checkpoint}: {error.strerror or error}; remove it, since the training is done")


class EpochReport:
    """Tells of each epoch, of when all will be done, and that an interrupted training can go on after it."""

    def __init__(
        self,
        terminal: Terminal,
        checkpoint: Path,
        epochs: int,
        restarted: bool,
        price: Optional[float],
        measure: str = "top-1",
    ) -> None:
        """Nothing is told yet.

        Args:
            terminal: where it is told.
            checkpoint: the file that holds the training.
            epochs: how many there will be.
            restarted: whether the command says --restart.
            price: of an hour; None if it does not matter.
            measure: what the share of correct samples is called.
        """
        self._terminal, self._checkpoint, self._epochs = terminal, checkpoint, epochs
        self._price, self._measure = price, measure
        self._same = "the same command without --restart" if restarted else "the same command"
        self._begun: Optional[float] = None
        self._done, self._seconds = 0, 0.0

    def progress(self, stream: Iterable[T], total: int, title: str) -> Iterator[T]:
        """Show the steps of an epoch; see ``Progress``."""
        for step in self._terminal.progress(stream, total, title):
            if self._begun is None:
                # What comes before the first step is done once.
                self._begun = monotonic()
            yield step

    def told(self, epoch: Epoch) -> None:
        """Tell of an epoch that is done."""
        self._terminal.work.kept = f"{self._checkpoint} holds epoch {epoch.number}; {self._same} goes on from there"
        self._done, self._seconds = self._done + 1, self._seconds + epoch.seconds
        left = 0.0
        if self._begun is not None:
            # Epochs take longer than their steps: they are judged and stored, too. Instances tell of steps when they
            # are done, so that the first is not among what has passed.
            passed = max(monotonic() - self._begun, self._seconds)
            left = (self._epochs - epoch.number) * passed / self._done
        self._terminal.tell(_line(epoch, self._epochs, left, self._price, self._measure))


def _line(epoch: Epoch, epochs: int, left: float, price: Optional[float], measure: str) -> str:
    """A line on an epoch: its loss, accuracy and speed, and when all are done, ``left`` seconds from now; 0: untold."""
    parts = [f"epoch {epoch.number}/{epochs}: loss {epoch.loss:.4f}"]
    if epoch.validated is not None:
        parts.append(f"{measure} {percent(epoch.validated.top1)}")
    parts.append(f"{epoch.throughput:.1f} images/s")
    parts.append(f"{percent(epoch.waiting)} waiting for data")
    if left:
        parts.append(f"ends about {time.strftime('%b %d %H:%M', time.localtime(time.time() + left))}")
        if price is not None:
            parts.append(f"{price * left / HOUR:.4f} more to pay")
    return ", ".join(parts)
