"""What becomes of a training whose instances are killed, hang or fail."""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.errors import DataError, InstanceError, QuantkitError, TrainingError
from quantkit.progress import T, silent
from quantkit.training.checkpoint import Checkpoint, write_checkpoint
from quantkit.training.communication import Alone
from quantkit.training.epoch import Epoch
from quantkit.training.finetune import FineTuned
from quantkit.training.instances import InstanceLostWarning, train_on_instances
from quantkit.training.machines import Machines
from quantkit.training.team import Team
from quantkit.training.unused import Unused
from tests.processes import started_by_this
from tests.training.conftest import DIVERGING, coloured
from tests.training.test_instances import CONFIG, left_running, params, trained
from tests.training.test_loop import loop
from tests.training.test_team import JOB

MEMORY = r"\(the machine may have run out of memory; give fewer instances or a smaller batch\)"

pytestmark = [pytest.mark.timeout(300), pytest.mark.requires("two-cpus")]


@pytest.fixture(scope="module")
def undisturbed(data: str) -> FineTuned:
    return trained(data)


Disturb = Callable[[], None]


def killed(module: str, number: int = 0) -> Disturb:
    """Kill a process that runs a module: the first or a later one."""

    def kill() -> None:
        os.kill(sorted(pid for pid, command in started_by_this() if module in command)[number], signal.SIGKILL)

    return kill


def trained_with_one_lost(data: str, module: str, number: int, checkpoint: Path, **options: Any) -> FineTuned:
    """A training of which a process is killed after the first epoch, see ``killed``."""
    told: list[int] = []

    def disturb(epoch: Epoch) -> None:
        told.append(epoch.number)
        if told == [1]:
            killed(module, number)()

    with pytest.warns(InstanceLostWarning, match=rf"killed by SIGKILL {MEMORY}; the training goes on after epoch \d"):
        result = trained(data, checkpoint=checkpoint, on_epoch=disturb, **options)
    assert told == [1, 2, 3] and len(result.epochs) == 3
    return result


# Of the servers, the scheduler is the first.
@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "number"),
    [("instance_process", 0), ("instance_process", 1), ("parameter_server", 0), ("parameter_server", 1)],
)
def test_a_killed_process_changes_nothing(
    data: str, undisturbed: FineTuned, module: str, number: int, tmp_path: Path
) -> None:
    result = trained_with_one_lost(data, module, number, tmp_path / "checkpoint")
    assert all(np.array_equal(params(result)[name], value) for name, value in params(undisturbed).items())


@pytest.mark.long
def test_one_that_hangs_is_replaced(data: str, undisturbed: FineTuned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantkit.training.team._PATIENCE", 6.0)
    monkeypatch.setattr("quantkit.training.team._TIMES", 0)
    stopped: list[int] = []

    def disturb(epoch: Epoch) -> None:
        if not stopped:
            stopped.extend(pid for pid, command in started_by_this() if "instance_process" in command)
            os.kill(stopped[0], signal.SIGSTOP)

    with pytest.warns(InstanceLostWarning, match=r"made a step for 6 s \(.*\); the training goes on"):
        result = trained(data, on_epoch=disturb)
    assert all(np.array_equal(params(result)[name], value) for name, value in params(undisturbed).items())


def test_a_training_that_loses_instances_again_and_again_ends(
    data: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("quantkit.training.instances._RESTARTS", 0)
    path = tmp_path / "checkpoint"

    def disturb(epoch: Epoch) -> None:
        killed("instance_process")()

    with pytest.raises(TrainingError, match=rf"{MEMORY}, 1 time in a row, after epoch 1; end what ends or slows the"):
        trained(data, checkpoint=path, on_epoch=disturb)
    assert path.exists()


@pytest.mark.parametrize("tells", [0, 1, 2])
def test_a_loss_after_the_last_epoch_loses_nothing(tells: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine is gone when this one has written its last checkpoint, and told of so many of two epochs."""
    training, told = loop(Alone()), list[Epoch]()
    job = replace(JOB, checkpoint=str(tmp_path / "checkpoint"))
    epochs = [Epoch(number, 0.5, 0.1, 3.0, 48, 0.0, None) for number in (1, 2)]

    def lost(*_: object) -> Iterator[dict[str, Any]]:
        write_checkpoint(Path(job.checkpoint), Checkpoint(job.identity, epochs, {}, {}, 2, Unused()))
        yield from map(asdict, epochs[:tells])
        raise InstanceError("crashed", "the connection was reset")

    monkeypatch.setattr(Team, "epochs", lost)
    train_on_instances(job, [], Machines(2, 1, "127.0.0.1:9000"), training, 0, silent, told.append)
    assert told == epochs


@pytest.mark.long
def test_what_stops_an_instance_is_told(tmp_path: Path) -> None:
    path = tmp_path / "beyond.npz"
    samples = list(coloured(32))
    np.savez(path, x=np.stack([each.image for each in samples]), y=np.full(32, 5))
    with pytest.raises(DataError, match="has label 5, but the network has 3 classes"):
        trained(str(path))
    assert not left_running()


def epochs_in(path: Path) -> list[int]:
    with np.load(path) as arrays:
        return [epoch["number"] for epoch in json.loads(arrays["checkpoint"].tobytes())["epochs"]]


def test_a_full_disk_of_an_instance_leaves_the_last_checkpoint(data: str, tmp_path: Path) -> None:
    """From its first checkpoint on, what an instance writes beyond a thousand bytes of a file fails."""
    path, told = tmp_path / "checkpoint", list[int]()

    def fill(epoch: Epoch) -> None:
        told.append(epoch.number)
        for pid, command in started_by_this():
            if "instance_process" in command:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (1000, 1000))

    with pytest.raises(QuantkitError, match=f"cannot write {path}: File too large; free space"):
        trained(data, replace(CONFIG, epochs=100), checkpoint=path, on_epoch=fill)
    assert epochs_in(path) == told and [*tmp_path.iterdir()] == [path]
    assert not left_running()


def test_instances_that_diverge_leave_the_last_checkpoint(data: str, tmp_path: Path) -> None:
    path, told = tmp_path / "checkpoint", list[int]()
    with pytest.raises(TrainingError, match=r"of epoch 2, .*: the training diverges; .*, with --restart"):
        trained(data, DIVERGING, checkpoint=path, on_epoch=lambda epoch: told.append(epoch.number))
    assert epochs_in(path) == told == [1] and [*tmp_path.iterdir()] == [path]
    assert not left_running()


@pytest.mark.long
def test_an_older_checkpoint_stays_until_a_new_training_has_one(
    data: str, undisturbed: FineTuned, tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint"
    trained(data, replace(CONFIG, epochs=1, learning_rate=0.1), checkpoint=path)
    older, begun, told = path.read_bytes(), list[str](), list[int]()

    def disturb(stream: Iterable[T], total: int, title: str) -> Iterable[T]:
        begun.append(title)
        assert told or path.read_bytes() == older
        if len(begun) == 1:
            killed("instance_process")()
        return stream

    with pytest.warns(InstanceLostWarning, match=rf"killed by SIGKILL {MEMORY}; the training goes on after epoch 0"):
        result = trained(
            data, checkpoint=path, restart=True, progress=disturb, on_epoch=lambda epoch: told.append(epoch.number)
        )
    assert begun == [f"epoch {number} of 3" for number in (1, 1, 2, 3)]
    assert told == [1, 2, 3] and path.read_bytes() != older
    assert all(np.array_equal(params(result)[name], value) for name, value in params(undisturbed).items())
