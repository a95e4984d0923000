"""The checkpoint of a training: everything that the next step depends on, and the best network so far, in one file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Optional

import numpy as np

from quantkit.data.left_out import LeftOut
from quantkit.errors import DataError, QuantkitError, UserError
from quantkit.files.files import locked, writing
from quantkit.files.schema import first_fault
from quantkit.formats.npz import read_npz, write_npz
from quantkit.training.epoch import Epoch
from quantkit.training.unused import Unused

_VERSION: Literal[1] = 1
_META = "checkpoint"
_STATE, _BEST = "now/", "best/"

# More than every epoch has; beyond, a float is no longer exact.
_MOST_SAMPLES = 2**53


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A training after some epochs.

    Attributes:
        training: the hash of all that decides it: network, samples, configuration, classes.
        epochs: those that are done.
        state: see ``TrainedNetwork.state``.
        best: the parameters after the best epoch.
        best_epoch: its number.
        unused: the samples that were left out.
    """

    training: str
    epochs: Sequence[Epoch]
    state: Mapping[str, np.ndarray]
    best: Mapping[str, np.ndarray]
    best_epoch: int
    unused: Unused


@dataclass(frozen=True)
class _Facts:
    """What a checkpoint holds besides arrays, as its JSON text has it."""

    version: Literal[1]
    training: str
    epochs: tuple[Epoch, ...]
    best_epoch: int
    left_out: tuple[LeftOut, ...] = ()
    validation_left_out: tuple[LeftOut, ...] = ()


@contextmanager
def claimed(path: Optional[Path]) -> Iterator[None]:
    """Claim the file of a checkpoint for one training, with a lock file beside it; None: there is none.

    Raises:
        UserError: another process trains with it.
        QuantkitError: its folder cannot be made or written.
    """
    if path is None:
        yield
        return

    def busy() -> None:
        raise UserError(
            f"another process trains with the checkpoint {path}; wait for it, or choose another place with --out "
            "(checkpoint)"
        )

    lock = path.with_name(f".{path.name}.lock")
    with locked(lock, busy):
        try:
            yield
        finally:
            with suppress(OSError):
                lock.unlink()


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint whole, or leave the older one as it was.

    Raises:
        QuantkitError: the disk is full, or the place cannot be written.
    """
    facts = _Facts(_VERSION, checkpoint.training, tuple(checkpoint.epochs), checkpoint.best_epoch, *checkpoint.unused)
    arrays = {f"{_STATE}{name}": value for name, value in checkpoint.state.items()}
    arrays |= {f"{_BEST}{name}": value for name, value in checkpoint.best.items()}
    arrays[_META] = np.frombuffer(json.dumps(asdict(facts)).encode(), np.uint8)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise QuantkitError(f"cannot write {path}: {error.strerror or error}; choose another place") from error
    with writing(path) as file:
        write_npz(file, arrays)


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
    from pydantic import TypeAdapter, ValidationError

    try:
        arrays = read_npz(path)
        text = arrays.pop(_META).tobytes()
        facts = TypeAdapter(_Facts).validate_json(text, strict=True)
    except ValidationError as error:
        raise _unreadable(path, ": ".join(first_fault(error))) from error
    except DataError as error:
        raise _unreadable(path, str(error)) from error
    except KeyError as error:
        raise _unreadable(path, "it is no checkpoint of a training") from error
    if not facts.epochs or not 1 <= facts.best_epoch <= len(facts.epochs):
        raise _unreadable(path, f"it holds {len(facts.epochs)} epochs, of which number {facts.best_epoch} is the best")
    if (odd := _impossible(facts.epochs)) is not None:
        raise _unreadable(path, f"what it says of epoch {odd} cannot be")
    unused = Unused(facts.left_out, facts.validation_left_out)
    if not all(0 <= each.position < _MOST_SAMPLES for each in (*unused.training, *unused.validation)):
        raise _unreadable(path, "a sample that it says was left out cannot be")
    state, best = _under(_STATE, arrays), _under(_BEST, arrays)
    found = Checkpoint(facts.training, facts.epochs, state, best, facts.best_epoch, unused)
    if found.training != training:
        raise UserError(
            f"{path} is the checkpoint of a training with other samples, options or another network; give the same "
            "again, begin anew with --restart (restart=True), or choose another place with --out"
        )
    return found


def check_alike(params: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> None:
    """Make sure that parameters have the names, shapes and types of others.

    Raises:
        ValueError: they have not.
    """
    for name in sorted(params.keys() | wanted.keys()):
        forms = [(each[name].shape, each[name].dtype) if name in each else None for each in (params, wanted)]
        if forms[0] != forms[1]:
            raise ValueError(f"its parameter {name!r} is not the network's")


def _impossible(epochs: Sequence[Epoch]) -> Optional[int]:
    """The number of the first epoch with figures that none has; None if there is none."""
    for number, epoch in enumerate(epochs, 1):
        seconds = 0 < epoch.seconds < math.inf and 0 <= epoch.waited < epoch.seconds
        if epoch.number != number or not seconds or not 0 < epoch.samples < _MOST_SAMPLES:
            return number
    return None


def _unreadable(path: Path, reason: str) -> UserError:
    return UserError(
        f"cannot go on from {path}: {reason}; begin anew with --restart (restart=True), or remove the file"
    )


def _under(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}
