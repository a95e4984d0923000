"""A runner whose batches are watched."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Optional

import numpy as np

from quantkit.deployment.network import Step
from quantkit.deployment.runner import Outputs, Runner, RunnerStatus
from quantkit.deployment.watching.watcher import Begun, Watcher
from quantkit.lowering.input_quantizer import InputQuantizer


class WatchedRunner:
    """The ``Runner`` that shows another one's batches to a watcher."""

    def __init__(self, runner: Runner, watcher: Watcher) -> None:
        """Take over the runner, and the watcher."""
        self._runner, self._watcher = runner, watcher
        self.engine, self.instances, self.streams = runner.engine, runner.instances, runner.streams

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
        begun: deque[Begun] = deque()

        def drawn() -> Iterator[np.ndarray]:
            for batch in batches:
                begun.append(self._watcher.begin(batch, self._runner.quantizer))
                yield batch

        for outputs in self._runner.outputs(drawn(), deadline):
            yield self._watcher.end(begun.popleft(), outputs, deadline)

    async def outputs_async(self, batches: Sequence[np.ndarray], deadline: Optional[float] = None) -> list[Outputs]:
        """See ``Runner``."""
        begun = [self._watcher.begin(batch, self._runner.quantizer) for batch in batches]
        found = await self._runner.outputs_async(batches, deadline)
        if not self._watcher.reads_floats:
            return [self._watcher.end(each, outputs, deadline) for each, outputs in zip(begun, found)]
        # FP32 may take long.
        return [
            await asyncio.to_thread(self._watcher.end, each, outputs, deadline) for each, outputs in zip(begun, found)
        ]

    def status(self) -> RunnerStatus:
        """See ``Runner``."""
        return self._runner.status()

    def close(self) -> None:
        """See ``Runner``."""
        self._runner.close()
        self._watcher.close()
