"""Trainings that take turns of seconds, each of which goes on where it was stopped.

The processors of a machine that others use, too, change their speed within minutes, so that what is compared has to run
within seconds of each other. All trainings are started one after another, and then continue (SIGCONT) and stop
(SIGSTOP) in turns, in random order in each round; the memory of all is held meanwhile. Of each turn the epoch in which
the training was stopped before does not count. Processes of one and the same training differ in speed for as long
as they live (see the nearly equal cycle times of horovod_cycle.py): so all can be started anew several times, and an
interval is one over starts.
"""

from __future__ import annotations

import os
import random
import signal
import warnings
from collections.abc import Hashable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, count
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import geometric_mean
from time import perf_counter
from typing import Optional, TypeVar

import numpy as np

import quantkit
from quantkit.benchmark.workers.worker import die_with_parent
from quantkit.errors import EngineError
from quantkit.host.children import descendants
from quantkit.training.epoch import Epoch
from quantkit.training.instances import InstanceLostWarning
from quantkit.training.launch import KVStoreName

Form = TypeVar("Form", bound=Hashable)

# Rounds of a start, at least.
_FEWEST = 2

# Epochs of a training that ends when it is told to, and seconds that it has for this.
_ENDLESS, _PATIENCE = 100_000, 30.0


@dataclass(frozen=True, eq=False)
class Training:
    """A network that learns on instances of one core each.

    Attributes:
        model: the network.
        images: an ``.npz`` of labelled images.
        classes: how many classes they have.
        config: how to train; its epochs do not count.
        instances: the number of processes, each of which has a core.
        kvstore: through what they exchange gradients.
        cpus: the hardware threads that it may use; None: all.
        variables: what is added to its environment.
    """

    model: quantkit.Model
    images: Path
    classes: int
    config: quantkit.TrainingConfig
    instances: int = 1
    kvstore: KVStoreName = "dist_sync"
    cpus: Optional[Sequence[int]] = None
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Turn:
    """A reading of all instances together.

    Attributes:
        throughput: images per second of their steps.
        waiting: the share of the steps' time in which they waited for data.
        between: seconds from the last step of an epoch to the first of the next one.
        start: the number of the start of the trainings, from 0.
    """

    throughput: float
    waiting: float
    between: float
    start: int = 0


def turns(
    forms: Mapping[Form, Sequence[Training]], minutes: int, epochs: int = 1, starts: int = 1
) -> dict[Form, list[Turn]]:
    """A reading of each form in each round; each start has two rounds or more.

    Args:
        forms: trainings that run at once, by form; one may be part of several forms.
        minutes: the length of all rounds together; each start has its part, after which no round begins.
        epochs: how many of a turn are counted.
        starts: how often all trainings are started.

    Raises:
        EngineError: a training ended.
    """
    shuffled = random.Random(0)
    found: dict[Form, list[Turn]] = {form: [] for form in forms}
    for start in range(starts):
        with ExitStack() as stack:
            running: dict[Training, _Running] = {}
            for training in dict.fromkeys(chain.from_iterable(forms.values())):
                running[training] = stack.enter_context(_Running(training))
                # Memory is laid out in the first epoch.
                running[training].epoch()
                running[training].signal(signal.SIGSTOP)
            end = perf_counter() + 60 * minutes / starts
            for number in count():
                if number >= _FEWEST and perf_counter() > end:
                    break
                for form in shuffled.sample([*forms], len(forms)):
                    reading = _turn([running[training] for training in forms[form]], epochs)
                    found[form].append(replace(reading, start=start))
    return found


def throughputs(readings: Sequence[Turn]) -> list[float]:
    """Images per second in each start, a geometric mean over its rounds; of one start, in each round."""
    by_start: dict[int, list[float]] = {}
    for turn in readings:
        by_start.setdefault(turn.start, []).append(turn.throughput)
    starts = [*by_start.values()]
    return starts[0] if len(starts) == 1 else [geometric_mean(speeds) for speeds in starts]


class _Running:
    """The process of a training."""

    def __init__(self, training: Training) -> None:
        context = get_context("spawn")
        self._told, theirs = Pipe(duplex=False)
        with theirs:
            self._process = context.Process(target=_train, args=(training, theirs, os.getpid()))
            self._process.start()

    def __enter__(self) -> _Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.signal(signal.SIGCONT)
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGINT)
        self._process.join(_PATIENCE)
        self._process.kill()
        self._process.join()
        self._told.close()

    @property
    def _pid(self) -> int:
        return self._process.pid or 0

    def signal(self, number: int) -> None:
        """Send a signal to all processes of the training."""
        for pid in (self._pid, *descendants(self._pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def epoch(self) -> tuple[float, Epoch]:
        """The next epoch, and when it ended, in seconds of the system's clock.

        Raises:
            EngineError: the training ended.
        """
        try:
            told: tuple[float, Epoch] = self._told.recv()
        except EOFError:
            raise EngineError("a training that takes turns with others ended; its error stands above") from None
        return told

    def turn(self, continued: float, epochs: int) -> Turn:
        """The reading of epochs that begin after the training was continued at that time."""
        begun = 0.0
        while begun < continued:
            begun, _ = self.epoch()
        told = [self.epoch() for _ in range(epochs)]
        seconds = sum(epoch.seconds for _, epoch in told)
        return Turn(
            sum(epoch.samples for _, epoch in told) / seconds,
            sum(epoch.waited for _, epoch in told) / seconds,
            (told[-1][0] - begun - seconds) / epochs,
        )


def _turn(running: Sequence[_Running], epochs: int) -> Turn:
    continued = perf_counter()
    for each in running:
        each.signal(signal.SIGCONT)
    found = [each.turn(continued, epochs) for each in running]
    for each in running:
        each.signal(signal.SIGSTOP)
    return Turn(
        sum(turn.throughput for turn in found),
        float(np.mean([turn.waiting for turn in found])),
        float(np.mean([turn.between for turn in found])),
    )


def _train(training: Training, told: Connection, parent: int) -> None:
    # One that is stopped would stay for ever.
    die_with_parent(parent)
    # Processes of a shell's background jobs ignore SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(training.variables)
    if training.cpus is not None:
        os.sched_setaffinity(0, training.cpus)
    # It would start anew, and its readings would be of something else.
    warnings.simplefilter("error", InstanceLostWarning)
    with suppress(KeyboardInterrupt):
        quantkit.finetune(
            training.model,
            str(training.images),
            classes=training.classes,
            config=replace(training.config, epochs=_ENDLESS),
            instances=f"{training.instances}x1",
            kvstore=training.kvstore,
            workers=1,
            on_epoch=lambda epoch: told.send((perf_counter(), epoch)),
        )
