"""The processes of a training on this machine: what they are started with, and what they tell."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Optional

from quantkit.backends.mxnet.subprocesses import environment
from quantkit.benchmark.placement.placement import Placement
from quantkit.deployment.child_messages import LOADING_PATIENCE
from quantkit.deployment.child_process import ChildProcess
from quantkit.errors import EngineError, InstanceError
from quantkit.progress import Progress
from quantkit.training.launch import KVStoreName, launch
from quantkit.training.machines import Machines

# Instances count as hanging after so many seconds without a word, or so many times their longest silence before it.
_PATIENCE, _TIMES = 300.0, 3

# Seconds of a wait for a word. One that took longer was no wait: this process was stopped, as Ctrl-Z does.
_WAIT, _LONGEST_WAIT = 1.0, 2.0

# An instance may tell that another one is gone a little before that one has ended.
_LOOKS, _LOOK_EVERY = 10, 0.1


@dataclass(frozen=True)
class Simulated:
    """An INT8 network as it is trained, as JSON values; see ``train_quantized``.

    Attributes:
        symbol: the path of its training graph's symbol.
        params: that of its parameters.
        learned: that of a JSON list with the names of those that are trained.
        distill: learn the scores of the card's network; else the labels.
    """

    symbol: str
    params: str
    learned: str
    distill: bool


@dataclass(frozen=True)
class Job:
    """What instances train, as JSON values; see ``finetune``.

    Attributes:
        card: the path of the network's card.
        train: the name of the training samples.
        validation: that of the validation samples.
        config: of the training.
        workers: of each instance; None: see ``feed_workers``.
        skip_bad: how many training and validation samples each instance may leave out.
        checkpoint: the path of the file.
        identity: the hash of what decides the training.
        anew: whether the training begins anew, whatever the checkpoint holds.
        kvstore: through what instances exchange gradients.
        compress: whether they send them as float16.
        simulated: the INT8 form of the card's network, which is trained instead.
    """

    card: str
    train: str
    validation: Optional[str]
    config: Mapping[str, Any]
    workers: Optional[int]
    skip_bad: tuple[int, int]
    checkpoint: str
    identity: str
    anew: bool
    kvstore: KVStoreName
    compress: bool
    simulated: Optional[Simulated]


class Team:
    """The processes of a training on this machine.

    They are the instances and, if there are several, those through which they find each other. The first instance
    of each machine writes the checkpoint there, and tells of steps and epochs.
    """

    def __init__(self, job: Job, placements: Sequence[Placement], machines: Optional[Machines]) -> None:
        self._job, self._placements, self._machines = job, placements, machines
        self._number = len(placements) * (machines.number if machines else 1)
        self._stack = ExitStack()
        self._others: list[ChildProcess] = []
        self._instances: list[ChildProcess] = []

    def __enter__(self) -> Team:
        try:
            start = launch(self._job.kvstore, len(self._placements), self._machines)
            for noun, module, settings, variables in start.servers():
                self._others.append(self._started(noun, module, settings, variables, 1))
            for place, placement in enumerate(self._placements):
                own = {
                    **asdict(self._job),
                    "cpus": placement.cpus,
                    "nodes": placement.nodes,
                    "instances": self._number,
                    "local_size": len(self._placements),
                    "leads": place == 0,
                }
                noun, variables = "an instance of the training", start.variables(place)
                self._instances.append(self._started(noun, "instance_process", own, variables, placement.threads))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _started(
        self, noun: str, module: str, settings: Mapping[str, Any], variables: Mapping[str, str], threads: int
    ) -> ChildProcess:
        everything = environment(**variables, OMP_NUM_THREADS=str(threads))
        try:
            process = ChildProcess(noun, f"quantkit.training.{module}", settings, everything)
        except OSError as error:
            raise InstanceError("start", f"{noun} cannot be started: {error.strerror or error}") from error
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
        longest, silent, heard, stepped = 0.0, 0.0, False, False
        while channels:
            begun = time.monotonic()
            spoken = wait([*channels], timeout=_WAIT)
            silent += min(_LONGEST_WAIT, time.monotonic() - begun)
            for ready in spoken:
                channel = ready if isinstance(ready, Connection) else None
                process = channels[channel] if channel is not None else None
                if channel is None or process is None:
                    continue
                message = self._message(process, channels)
                if heard:
                    longest = max(longest, silent)
                # Step 0 is that of an instance that has met the others, or validates.
                silent, heard, stepped = 0.0, True, stepped or message.get("step") != 0
                if "done" in message:
                    del channels[channel]
                else:
                    yield message
            if (lost := self._lost(channels)) is not None:
                raise lost
            # The first step lays out memory, too.
            patience = max(_PATIENCE if stepped else LOADING_PATIENCE, _TIMES * longest)
            if silent > patience:
                raise InstanceError("hung", self._silence(patience, heard))

    def _message(self, process: ChildProcess, waited_for: Container[object]) -> dict[str, Any]:
        """What an instance tells.

        Raises:
            InstanceError: it is lost, or tells of an error that comes from the loss of another one.
            QuantkitError: what it tells has stopped it.
        """
        try:
            return process.answer(_PATIENCE)
        except EngineError as error:
            for _ in range(_LOOKS):
                if (lost := self._lost(waited_for)) is not None:
                    raise lost from error
                time.sleep(_LOOK_EVERY)
            if self._machines is not None and self._machines.number > 1:
                raise InstanceError("crashed", str(error)) from error
            raise

    def _lost(self, waited_for: Container[object]) -> Optional[InstanceError]:
        """How a process ended that should not have; one that is done may be gone."""
        needed = [*self._others, *(each for each in self._instances if each.channel in waited_for)]
        return next((each.gone() for each in needed if not each.lives()), None)

    def _silence(self, patience: float, heard: bool) -> str:
        machines = self._machines
        if not heard and machines is not None and machines.number > 1:
            return (
                f"the machines did not meet at {machines.scheduler} within {patience:.0f} s; start machine 0 there, "
                "and as many instances on each; where one is done, take its result, which is that of all"
            )
        return (
            f"no instance of the training made a step for {patience:.0f} s (steps that take so long need a smaller "
            "batch: --batch-size, batch_size)"
        )


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
