"""Training on several instances: a new start where one is lost."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Optional

from quantkit.benchmark.placement.placement import Placement
from quantkit.errors import InstanceError, TrainingError
from quantkit.progress import Progress
from quantkit.training.checkpoint import read_checkpoint
from quantkit.training.epoch import epoch_of
from quantkit.training.loop import EpochCallback, Loop
from quantkit.training.machines import Machines
from quantkit.training.team import Job, Team
from quantkit.units import counted

# How often a training goes on from its checkpoint after a loss, without an epoch in between, before it is given up.
_RESTARTS = 3


class InstanceLostWarning(UserWarning):
    """An instance of a training was lost, and the training goes on from its checkpoint."""


def train_on_instances(
    job: Job,
    placements: Sequence[Placement],
    machines: Optional[Machines],
    loop: Loop,
    done: int,
    progress: Progress,
    on_epoch: EpochCallback,
) -> None:
    """Train on instances until the training is done.

    Args:
        job: what each instance trains.
        placements: where each instance of this machine runs.
        machines: those that train together; None: this one alone.
        loop: the training.
        done: how many epochs are in the checkpoint.
        progress: wraps the steps of each epoch.
        on_epoch: is given each epoch.

    Raises:
        QuantkitError: what stopped an instance.
        UserError: the checkpoint is damaged.
        TrainingError: instances are lost again and again.
    """
    lost, reached = 0, done
    while True:
        try:
            with Team(replace(job, anew=job.anew and not reached), placements, machines) as team:
                for message in team.epochs(reached, loop.feed.steps, progress):
                    epoch = epoch_of(message)
                    lost, reached = 0, epoch.number
                    on_epoch(epoch)
                return
        except InstanceError as error:
            # The last epoch may be in the checkpoint, and untold. Before the first, an older training's may be there.
            found = None if job.anew and not reached else read_checkpoint(Path(job.checkpoint), job.identity)
            for epoch in found.epochs[reached:] if found else ():
                lost, reached = 0, epoch.number
                on_epoch(epoch)
            if found is not None and loop.is_done(found):
                return
            if machines is not None and machines.number > 1:
                raise TrainingError(
                    f"{_how_lost(error)}; see what the others say, and give the same command, without --restart, on "
                    f"all machines, which go on after epoch {reached}; where one is done, take its result, which is "
                    "that of all"
                ) from error
            lost += 1
            if lost > _RESTARTS:
                raise TrainingError(
                    f"{_how_lost(error)}, {counted(lost, 'time')} in a row, after epoch {reached}; end what ends or "
                    "slows the instances, and give the same command, without --restart, which goes on from a "
                    "checkpoint if there is one"
                ) from error
            warnings.warn(
                f"{_how_lost(error)}; the training goes on after epoch {reached}", InstanceLostWarning, stacklevel=2
            )


def _how_lost(error: InstanceError) -> str:
    """How an instance was lost, and what may help."""
    # Linux ends processes in this way when memory runs out.
    if signal.SIGKILL.name in str(error):
        return f"{error} (the machine may have run out of memory; give fewer instances or a smaller batch)"
    return str(error)
