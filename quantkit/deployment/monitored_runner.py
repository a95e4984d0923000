"""A runner whose batches are watched."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Optional

import numpy as np

from quantkit.deployment.network import Step
from quantkit.deployment.runner import Outputs, Runner, RunnerStatus
from quantkit.deployment.watching.watcher import PendingBatch, Watcher
from quantkit.lowering.input_quantizer import InputQuantizer


class MonitoredRunner:
    """The ``Runner`` that shows another one's batches to a watcher."""

    def __init__(self, runner: Runner, watcher: Watcher) -> None:
        """Take over the runner, and the watcher, which writes its last events when this is gone."""
        self._runner, self._watcher = runner, watcher
        self.engine, self.instances, self.streams = runner.engine, runner.instances, runner.streams
        self._finalizer = weakref.finalize(self, watcher.close)

    @property
    def quantizer(self) -> Optional[InputQuantizer]:
        """See ``Runner``."""
        return None if self._watcher.reads_floats else self._runner.quantizer

    @property
    def step(self) -> Optional[Step]:
        """See ``Runner``; steps are not watched."""
        return self._runner.step

    def outputs(self, batches: Iterable[np.ndarray], deadline: Optional[float] = None) -> Iterator[Outputs]:
        """See ``Runner``."""
        pending: deque[PendingBatch] = deque()

        def begun(batch: np.ndarray) -> np.ndarray:
            pending.append(self._watcher.begin(batch, self._runner.quantizer))
            return batch

        for outputs in self._runner.outputs(map(begun, batches), deadline):
            batch = pending.popleft()
            rows = self._watcher.end(batch, outputs)
            yield self._watcher.answered(batch, outputs, rows, deadline) if rows else outputs

    async def outputs_async(self, batches: Sequence[np.ndarray], deadline: Optional[float] = None) -> list[Outputs]:
        """See ``Runner``."""
        pending = [self._watcher.begin(batch, self._runner.quantizer) for batch in batches]
        found = []
        for batch, outputs in zip(pending, await self._runner.outputs_async(batches, deadline)):
            rows = self._watcher.end(batch, outputs)
            # FP32 may take long.
            replaced = asyncio.to_thread(self._watcher.answered, batch, outputs, rows, deadline) if rows else None
            found.append(outputs if replaced is None else await replaced)
        return found

    def status(self) -> RunnerStatus:
        """See ``Runner``."""
        return self._runner.status()

    def close(self) -> None:
        """See ``Runner``."""
        try:
            self._runner.close()
        finally:
            self._finalizer()
