"""What is faulted of trainings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.verb import Verb, called, command, does


def checkpoint(base: Path) -> Verb:
    """The state of a training in place of that after the epoch before."""
    from quantkit.training.checkpoint import write_checkpoint

    def run_with(epochs: int) -> Callable[[], None]:
        return does(lambda: write_checkpoint(Path("net.checkpoint"), _after(epochs)))

    return command(base, "net.checkpoint", run_with(1), run_with(2))


def finetune(base: Path) -> Verb:
    """A trained network in place of another; its checkpoint is written before, and removed afterwards."""
    from quantkit.training.checkpoint import write_checkpoint
    from quantkit.training.config import TrainingConfig
    from quantkit.training.finetune import finetune as train
    from tests.training.conftest import coloured, tiny

    def run_with(seed: int) -> Callable[[], None]:
        config = TrainingConfig(epochs=1, batch_size=8, seed=seed)
        trained = train(tiny(), coloured(16), config=config, workers=0)

        def at_once(*_: object, checkpoint: Path, **__: object) -> Any:
            write_checkpoint(checkpoint, _after(1))
            return trained

        arguments = ["finetune", "digits_resnet20_v1", "--train", "digits:train", "--out", "out", "--force", "--quiet"]
        return called(arguments, quantkit__training__finetune__finetune=at_once)

    return command(base, "out", run_with(0), run_with(1))


def _after(epochs: int) -> Any:
    """The checkpoint after so many epochs."""
    import numpy as np

    from quantkit.training.checkpoint import Checkpoint
    from quantkit.training.epoch import Epoch
    from quantkit.training.unused import Unused

    weight = {"weight": np.full((8, 8), epochs, np.float32)}
    done = [Epoch(number, 0.5, 0.1, 3.0, 64, 0.0, None) for number in range(1, epochs + 1)]
    return Checkpoint("training", done, weight, weight, epochs, Unused())
