"""What a predictor hands batches to: a network in this process, or instances of it in others."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Optional, Protocol

import numpy as np

from quantkit.deployment.network import RunningNetwork, Step
from quantkit.errors import DeadlineExceeded, UserError
from quantkit.lowering.input_quantizer import InputQuantizer

Outputs = list[np.ndarray]
"""All outputs of a network for a batch, in the network's order."""


@dataclass(frozen=True)
class RunnerStatus:
    """What a runner has to do, and has done.

    Attributes:
        waiting: the samples that no instance and no stream has begun with; 0 where there are none of these.
        batches: how many batches of each size were begun.
        failed: whether all later requests will fail.
        lost: how many instances were lost, and replaced if that could be done.
    """

    waiting: int = 0
    batches: Mapping[int, int] = field(default_factory=dict)
    failed: bool = False
    lost: int = 0


class Runner(Protocol):
    """Runs a network for any number of threads.

    Deadlines are by ``time.monotonic``; None for none.
    """

    @property
    def engine(self) -> str:
        """The engine's name."""

    @property
    def instances(self) -> int:
        """How many processes run it; 0: it runs in this one."""

    @property
    def streams(self) -> int:
        """How many times it runs at once in this process; 0: once at a time, or not at all."""

    @property
    def quantizer(self) -> Optional[InputQuantizer]:
        """What may have made batches integers; None where they must be float32."""

    @property
    def step(self) -> Optional[Step]:
        """Runs a batch from given states, by the names of their inputs; None where that cannot be done."""

    def outputs(self, batches: Iterable[np.ndarray], deadline: Optional[float] = None) -> Iterator[Outputs]:
        """The outputs for each batch, in order; ``batches`` are drawn as they are needed.

        Raises:
            DeadlineExceeded: the deadline has passed.
            QuantkitError: a batch cannot be computed.
        """

    async def outputs_async(self, batches: Sequence[np.ndarray], deadline: Optional[float] = None) -> list[Outputs]:
        """The same, while the event loop goes on."""

    def status(self) -> RunnerStatus:
        """What it has to do, and has done."""

    def close(self) -> None:
        """End what was started for it."""


class Turns:
    """The ``Runner`` in this process, in which one caller at a time runs the network, with all of its threads."""

    instances = 0
    streams = 0

    def __init__(self, network: RunningNetwork) -> None:
        """Take over a network that is loaded."""
        self._network, self._lock = network, Lock()
        self._batches: Counter[int] = Counter()
        self._closed = False
        self.engine, self.quantizer = network.engine, network.quantizer

    def outputs(self, batches: Iterable[np.ndarray], deadline: Optional[float] = None) -> Iterator[Outputs]:
        """See ``Runner``; a run that has begun is not interrupted."""
        for batch in batches:
            with self._turn(deadline):
                self._batches[len(batch)] += 1
                outputs = self._network.run(batch)
            yield outputs

    async def outputs_async(self, batches: Sequence[np.ndarray], deadline: Optional[float] = None) -> list[Outputs]:
        """See ``Runner``."""
        return await asyncio.to_thread(list, self.outputs(batches, deadline))

    @property
    def step(self) -> Optional[Step]:
        """See ``Runner``."""
        step = self._network.step
        return None if step is None else partial(self._step, step)

    def _step(self, step: Step, batch: np.ndarray, states: Mapping[str, np.ndarray]) -> Outputs:
        with self._turn(None):
            return step(batch, states)

    def status(self) -> RunnerStatus:
        """See ``Runner``."""
        # Without the lock, which is held while the network runs; a dictionary is copied at once.
        return RunnerStatus(batches=dict(self._batches))

    def close(self) -> None:
        """Refuse what comes later."""
        self._closed = True

    @contextmanager
    def _turn(self, deadline: Optional[float]) -> Iterator[None]:
        if self._closed:
            raise closed()
        patience = -1.0 if deadline is None else deadline - time.monotonic()
        if (deadline is not None and patience <= 0) or not self._lock.acquire(timeout=patience):
            raise overdue()
        try:
            yield
        finally:
            self._lock.release()


def closed() -> UserError:
    """The error of requests to a predictor that was closed."""
    return UserError("the predictor is closed; load the bundle again")


def overdue() -> DeadlineExceeded:
    """The error of a request whose time is up."""
    return DeadlineExceeded("the request was not answered in its time; allow it more, or send fewer at a time")
