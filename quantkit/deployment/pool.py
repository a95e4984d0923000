"""Pool: instances of a network that share the requests of all threads."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Optional

import numpy as np

from quantkit.benchmark.placement.proof import problem, prove
from quantkit.bundle.bundle import Bundle
from quantkit.deployment.instance import InstanceLaunch
from quantkit.deployment.instances import Instances
from quantkit.deployment.kept_instance import InstanceWarning, KeptInstance
from quantkit.deployment.queued_requests import QueuedRequests
from quantkit.deployment.runner import Outputs, RunnerStatus
from quantkit.deployment.slots import SLOTS
from quantkit.errors import InstanceError


class Pool:
    """Instances of a bundle's network.

    Any thread may submit requests. An instance that is lost, or gives no answer, is replaced. What it had begun to
    compute is computed again, and fails if an instance is lost with it again.

    Attributes:
        engine: the engine's name.
        placements: of the instances.
        quantizer: what makes batches integers, which instances then read alone; None: they read float32.
        step: None; states stay with their caller.
        streams: 0; it runs in other processes.
    """

    step = None
    streams = 0

    def __init__(self, bundle: Bundle, engine: str, instances: Instances) -> None:
        """Start the instances; all have loaded the network when this returns.

        Raises:
            UserError: there is no room for them, or their runtime is not installed.
            QuantkitError: the network cannot run there.
            InstanceError: an instance cannot be started.
        """
        self.engine, self.placements = engine, instances.placements()
        number, directory = len(self.placements), bundle.directory.absolute()
        form, runtime = (bundle, directory, engine), instances.runtime
        launches = [InstanceLaunch(*form, each, instances.batch, runtime) for each in self.placements]
        # Of each instance what is computed, and what is ready.
        ahead = SLOTS * sum(launch.most for launch in launches)
        self._requests = QueuedRequests(number, instances.batch, ahead)
        self._members: list[KeptInstance] = []
        self._finalizer = weakref.finalize(self, _close, os.getpid(), self._requests, self._members)
        try:
            for launch in launches:
                self._members.append(KeptInstance(launch, self._requests.queue, instances.window))
            loaded = [member.wait() for member in self._members]
        except BaseException:
            self.close()
            raise
        self.quantizer = loaded[0]
        for wrong in self._misplaced():
            warnings.warn(f"an instance is not in its place: {wrong}", InstanceWarning, stacklevel=4)

    @property
    def instances(self) -> int:
        """See ``Runner``."""
        return len(self.placements)

    def outputs(self, batches: Iterable[np.ndarray], deadline: Optional[float] = None) -> Iterator[Outputs]:
        """See ``QueuedRequests``."""
        return self._requests.outputs(batches, deadline)

    async def outputs_async(self, batches: Sequence[np.ndarray], deadline: Optional[float] = None) -> list[Outputs]:
        """See ``Runner``."""
        return await self._requests.outputs_async(batches, deadline)

    def pids(self) -> list[int]:
        """The numbers of the instances' processes."""
        return [member.pid for member in self._members]

    def status(self) -> RunnerStatus:
        """See ``Runner``."""
        return replace(self._requests.status(), lost=sum(member.lost for member in self._members))

    def close(self) -> None:
        """End the instances; requests that are not answered yet fail."""
        self._finalizer()

    def _misplaced(self) -> Iterator[str]:
        """Why instances are not in their places, as /proc tells."""
        # With all memory alike, it does not matter whether the kernel tells where pages are.
        apart = len({placement.nodes for placement in self.placements}) > 1
        for pid, placement in zip(self.pids(), self.placements):
            # One that was lost meanwhile is on its way to its place.
            with suppress(InstanceError):
                proven = prove(pid, placement)
                if wrong := problem(proven, placement if apart else replace(placement, nodes=None), openmp=False):
                    yield wrong


def _close(process: int, requests: QueuedRequests, members: Sequence[KeptInstance]) -> None:
    # A fork that ends is not the owner.
    if os.getpid() != process:
        return
    requests.close()
    for member in members:
        member.close()
    for member in members:
        member.join()
