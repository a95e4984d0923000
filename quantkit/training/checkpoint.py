"""The checkpoint of a training: everything that the next step depends on, and the best network so far, in one file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Optional

import numpy as np

from quantkit.errors import DataError, UserError
from quantkit.files.files import writing
from quantkit.formats.npz import read_npz
from quantkit.training.epoch import Epoch, epoch_of

_VERSION = 1
_META = "checkpoint"
_STATE, _BEST = "now/", "best/"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A training after some epochs.

    Attributes:
        training: the hash of all that decides it: network, samples, configuration, classes.
        epochs: those that are done.
        state: see ``TrainedNetwork.state``.
        best: the parameters after the best epoch.
        best_epoch: its number.
    """

    training: str
    epochs: Sequence[Epoch]
    state: Mapping[str, np.ndarray]
    best: Mapping[str, np.ndarray]
    best_epoch: int


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint whole, or leave the older one as it was.

    Raises:
        QuantkitError: the disk is full, or the place cannot be written.
    """
    facts = {
        "version": _VERSION,
        "training": checkpoint.training,
        "epochs": [asdict(epoch) for epoch in checkpoint.epochs],
        "best_epoch": checkpoint.best_epoch,
    }
    arrays = {f"{_STATE}{name}": value for name, value in checkpoint.state.items()}
    arrays |= {f"{_BEST}{name}": value for name, value in checkpoint.best.items()}
    arrays[_META] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    with writing(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read_checkpoint(path: Path, training: str) -> Optional[Checkpoint]:
    """The checkpoint in a file, or None if there is no file.

    Args:
        path: the file.
        training: the hash of the training that is to go on.

    Raises:
        UserError: it is damaged, or of another training.
    """
    if not path.exists():
        return None
    try:
        arrays = read_npz(path)
        facts = json.loads(arrays.pop(_META).tobytes())
        if facts["version"] != _VERSION:
            raise ValueError(f"its version is {facts['version']!r}")
        epochs = [epoch_of(each) for each in facts["epochs"]]
        found = Checkpoint(
            str(facts["training"]), epochs, _under(_STATE, arrays), _under(_BEST, arrays), int(facts["best_epoch"])
        )
    except (DataError, LookupError, TypeError, ValueError) as error:
        raise UserError(
            f"cannot go on from {path}: {error}; begin anew with --restart (restart=True), or remove the file"
        ) from error
    if found.training != training:
        raise UserError(
            f"{path} is the checkpoint of a training with other samples, options or another network; give the same "
            "again, begin anew with --restart (restart=True), or choose another place with --out"
        )
    return found


def _under(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}
