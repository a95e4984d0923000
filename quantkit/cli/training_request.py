"""What the options of a training ask for."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Optional, Union

import click

from quantkit.cli.training_options import Learning, Parallel, Varying

if TYPE_CHECKING:
    from quantkit.training.config import TrainingConfig
    from quantkit.training.machines import Machines


def config_of(learning: Learning, varying: Varying, usual: TrainingConfig) -> TrainingConfig:
    """The configuration that options make of the usual one.

    Raises:
        UsageError: an option does nothing for the optimizer.
        UserError: a value is impossible.
    """
    config = varied(varying, replace(usual, **_given(learning)))
    if learning.momentum is not None and config.optimizer != "sgd":
        raise click.UsageError(
            f"--momentum is for sgd, and the optimizer is {config.optimizer}; leave it out, or give --optimizer sgd"
        )
    return config


def varied(varying: Varying, usual: TrainingConfig) -> TrainingConfig:
    """The configuration with images varied as options ask for."""
    asked = _given(varying)
    mixup = {"mixup": asked.pop("mixup")} if "mixup" in asked else {}
    return replace(usual, **mixup, augmentation=replace(usual.augmentation, **asked))


def check_varied(varying: Varying, data: str) -> None:
    """Refuse options that vary images where the samples, by their first, are none.

    Raises:
        UsageError: one does nothing.
        SamplesUnavailable: the samples cannot be reached.
    """
    from quantkit.data.sources import load_data
    from quantkit.errors import DataError
    from quantkit.training.augmentation import NONE, can_be_varied

    changes = [name for name, value in asdict(NONE).items() if getattr(varying, name) not in (None, value)]
    if not changes:
        return
    try:
        samples = load_data(data)
        sample = next(iter(samples))
    except DataError:
        # The training tells of it, or leaves it out.
        return
    if not can_be_varied(sample):
        raise click.UsageError(
            f"--{changes[0].replace('_', '-')} varies images, and {samples.name} holds arrays as the network reads "
            "them; leave it out"
        )


def machines_of(parallel: Parallel) -> Optional[Machines]:
    """The machines that train together; None: this one alone.

    Raises:
        UsageError: options are missing, or are for several machines.
        UserError: a value is impossible.
    """
    from quantkit.training.machines import Machines

    if parallel.machines == 1:
        if parallel.machine or parallel.scheduler:
            raise click.UsageError("--machine and --scheduler go with --machines; give it, too")
        return None
    if parallel.scheduler is None:
        raise click.UsageError("--machines needs --scheduler HOST:PORT, the address of machine 0")
    return Machines(parallel.machines, parallel.machine, parallel.scheduler)


def _given(options: Union[Learning, Varying]) -> dict[str, Any]:
    return {name: value for name, value in asdict(options).items() if value is not None and value != ()}
