"""Training on several instances of this machine: their processes, what they tell, and a new start where one is lost."""

from __future__ import annotations

import socket
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Optional

from quantkit.backends.mxnet.subprocesses import environment
from quantkit.benchmark.placement.placement import Placement
from quantkit.data.left_out import LeftOut
from quantkit.deployment.child_messages import LOADING_PATIENCE
from quantkit.deployment.child_process import ChildProcess
from quantkit.errors import InstanceError, TrainingError
from quantkit.progress import Progress
from quantkit.training.epoch import epoch_of
from quantkit.training.loop import Told

_LOCALHOST = "127.0.0.1"

# Of MXNet's parameter server: one adds up what all instances of a machine send.
_SERVERS = 1

# How often a training goes on from its checkpoint after a loss, without an epoch in between, before it is given up.
_RESTARTS = 3

# Seconds without a step of any instance, after which they count as hanging. The first step waits for the loading.
_PATIENCE = 300.0


class InstanceLostWarning(UserWarning):
    """An instance of a training was lost, and the training goes on from its checkpoint."""


@dataclass(frozen=True)
class Job:
    """What instances train, as JSON values; see ``finetune``.

    Attributes:
        card: the path of the network's card.
        train: the name of the training samples.
        validation: that of the validation samples.
        config: of the training.
        workers: of each instance; None: one for each of its processors.
        skip_bad: how many samples each instance may leave out.
        checkpoint: the path of the file.
        identity: the hash of what decides the training.
    """

    card: str
    train: str
    validation: Optional[str]
    config: Mapping[str, Any]
    workers: Optional[int]
    skip_bad: int
    checkpoint: str
    identity: str


def train_on_instances(
    job: Job, placements: Sequence[Placement], done: int, steps: int, progress: Progress, told: Told
) -> tuple[LeftOut, ...]:
    """Train on instances until the checkpoint holds the last epoch; returns the samples that they left out.

    Args:
        job: the training.
        placements: where each instance runs.
        done: how many epochs are in the checkpoint.
        steps: in an epoch.
        progress: wraps the steps of each epoch.
        told: is given each epoch.

    Raises:
        QuantkitError: what stopped an instance.
        TrainingError: instances are lost again and again.
    """
    losses, reached = 0, done
    while True:
        try:
            with _Team(job, placements) as team:
                for message in team.epochs(reached, steps, progress):
                    epoch = epoch_of(message)
                    losses, reached = 0, epoch.number
                    told(epoch)
                return team.left_out
        except InstanceError as error:
            losses += 1
            if losses > _RESTARTS:
                raise TrainingError(
                    f"{error}, {losses} times in a row; the checkpoint {job.checkpoint} holds {reached} epochs: mend "
                    "what ends the instances, and give the same command again"
                ) from error
            warnings.warn(f"{error}; the training goes on after epoch {reached}", InstanceLostWarning, stacklevel=2)


class _Team:
    """The processes of a training: the scheduler and the server of MXNet's parameter server, and the instances."""

    def __init__(self, job: Job, placements: Sequence[Placement]) -> None:
        self._job, self._placements = job, placements
        self._stack = ExitStack()
        self._others: list[ChildProcess] = []
        self._instances: list[ChildProcess] = []
        self._left_out: dict[int, LeftOut] = {}

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The samples that instances have left out, by position."""
        return tuple(self._left_out[position] for position in sorted(self._left_out))

    def __enter__(self) -> _Team:
        try:
            port = _free_port()
            for role in ("scheduler", *("server",) * _SERVERS):
                self._others.append(self._started(f"the {role} of the training", "parameter_server", {}, role, port, 1))
            for placement in self._placements:
                settings = {**asdict(self._job), "cpus": placement.cpus, "nodes": placement.nodes}
                process = self._started(
                    "an instance of the training", "instance_process", settings, "worker", port, placement.threads
                )
                self._instances.append(process)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _started(
        self, noun: str, module: str, settings: Mapping[str, Any], role: str, port: int, threads: int
    ) -> ChildProcess:
        variables = environment(
            DMLC_ROLE=role,
            DMLC_PS_ROOT_URI=_LOCALHOST,
            DMLC_PS_ROOT_PORT=str(port),
            DMLC_NODE_HOST=_LOCALHOST,
            DMLC_NUM_SERVER=str(_SERVERS),
            DMLC_NUM_WORKER=str(len(self._placements)),
            OMP_NUM_THREADS=str(threads),
        )
        process = ChildProcess(noun, f"quantkit.training.{module}", settings, variables)
        self._stack.callback(process.close)
        return process

    def epochs(self, done: int, steps: int, progress: Progress) -> Iterator[Mapping[str, Any]]:
        """What the first instance tells of each epoch, until all have ended."""
        messages = self._messages()
        epochs = int(self._job.config["epochs"])
        for number in range(done + 1, epochs + 1):
            told: list[Mapping[str, Any]] = []
            for _ in progress(_steps(messages, steps, told), steps, f"epoch {number} of {epochs}"):
                pass
            if not told:
                return
            yield told[0]
        for _ in messages:
            pass

    def _messages(self) -> Iterator[Mapping[str, Any]]:
        """What instances tell, until the last has told that it is done."""
        channels = {process.channel: process for process in self._instances}
        deadline = time.monotonic() + LOADING_PATIENCE
        while channels:
            for ready in wait([*channels], timeout=1.0):
                channel = ready if isinstance(ready, Connection) else None
                process = channels[channel] if channel is not None else None
                if channel is None or process is None:
                    continue
                message = process.answer(_PATIENCE)
                deadline = time.monotonic() + _PATIENCE
                if "left_out" in message:
                    self._left_out |= {each["position"]: LeftOut(**each) for each in message["left_out"]}
                    del channels[channel]
                else:
                    yield message
            for process in (*self._others, *self._instances):
                # One that is done may be gone.
                if not process.lives() and (process in self._others or process.channel in channels):
                    raise process.gone()
            if time.monotonic() > deadline:
                raise InstanceError("hung", f"no instance of the training made a step for {_PATIENCE:.0f} s")


def _steps(messages: Iterator[Mapping[str, Any]], steps: int, told: list[Mapping[str, Any]]) -> Iterator[int]:
    """The steps of an epoch as they are told; ``told`` gets what is told of the whole epoch."""
    reached = 0
    for message in messages:
        if "epoch" in message:
            told.append(message["epoch"])
            break
        while reached < min(steps, message["step"]):
            reached += 1
            yield reached
    if told:
        yield from range(reached + 1, steps + 1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOCALHOST, 0))
        return int(probe.getsockname()[1])
