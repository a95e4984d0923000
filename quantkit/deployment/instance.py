"""One process of a pool and the channel to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Optional

import numpy as np

from quantkit.backends.mxnet.subprocesses import environment
from quantkit.benchmark.placement.placement import Placement
from quantkit.bundle.bundle import Bundle
from quantkit.deployment import instance_process
from quantkit.deployment.child_messages import LOADING_PATIENCE
from quantkit.deployment.child_process import ChildProcess
from quantkit.deployment.runtime import Runtime
from quantkit.deployment.slots import Slots, make_memory
from quantkit.errors import InstanceError
from quantkit.files.text import MEBIBYTE
from quantkit.lowering.input_quantizer import InputQuantizer

# Seconds that an answer may take, beside ten times what it took before.
_LEAST_PATIENCE = 30.0

# Handing over and answering take longer than small networks: so many samples of one request go at once, or as many as
# fit into so many bytes with their outputs.
_TOGETHER = 16
_ROOM = 16 * MEBIBYTE

# So many values are quantized at a time, which stay in the processor's cache.
_CACHED = 1 << 17

_NOUN = "an instance"

# The variables of OpenMP runtimes.
_OF_THREADS = ("OMP_", "GOMP_", "KMP_")


@dataclass(frozen=True, eq=False)
class InstanceLaunch:
    """How an instance is started.

    Attributes:
        bundle: whose network.
        directory: the bundle's, wherever this process goes.
        engine: the engine's name.
        placement: where.
        batch: the most samples that it computes at once.
        runtime: what its process is started with.
    """

    bundle: Bundle
    directory: Path
    engine: str
    placement: Placement
    batch: int
    runtime: Runtime

    @property
    def most(self) -> int:
        """The most samples of a request that it is handed at once, and computes batch by batch."""
        manifest = self.bundle.manifest
        values = prod(manifest.input.shape) + sum(prod(output.shape) for output in manifest.outputs)
        return max(self.batch, min(_TOGETHER, _ROOM // (values * np.dtype(np.float32).itemsize)))


class Instance:
    """A process that computes what it is handed, one after the other; one thread uses it, any may kill it."""

    def __init__(self, launch: InstanceLaunch) -> None:
        """Start the process, which then loads the network; it ends with the thread that starts it.

        Raises:
            InstanceError: it cannot be started.
            UserError: what it should be started with is not installed.
        """
        manifest = launch.bundle.manifest
        form = launch.most, manifest.input.shape, [output.shape for output in manifest.outputs]
        try:
            memory = make_memory(*form)
            try:
                self.slots = Slots(memory, *form)
                variables = _variables(launch)
                settings = self._settings(launch, memory)
                self._process = ChildProcess(_NOUN, instance_process.__name__, settings, variables, (memory,))
            finally:
                os.close(memory)
        except OSError as error:
            raise InstanceError("start", f"{_NOUN} cannot be started: {error.strerror or error}") from error
        self._patience = LOADING_PATIENCE
        self._quantizer: Optional[InputQuantizer] = None
        self._inputs = self.slots.inputs_of("float32")

    @staticmethod
    def _settings(launch: InstanceLaunch, memory: int) -> dict[str, Any]:
        return {
            "bundle": str(launch.directory),
            "sha256": launch.bundle.sha256,
            "engine": launch.engine,
            "cpus": launch.placement.cpus,
            "nodes": launch.placement.nodes,
            "batch": launch.batch,
            "most": launch.most,
            "memory": memory,
        }

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def wait(self) -> Optional[InputQuantizer]:
        """Return when the network is loaded, with what makes its batches integers; None: they are float32.

        Raises:
            QuantkitError: it cannot run there.
            InstanceError: the process ended, or hangs.
        """
        loaded = self._process.answer(self._patience)
        self._patience = max(_LEAST_PATIENCE, 10 * float(loaded["seconds"]))
        if loaded["quantizer"] is not None:
            self._quantizer = InputQuantizer(**loaded["quantizer"])
            self._inputs = self.slots.inputs_of(self._quantizer.dtype)
        return self._quantizer

    def put(self, slot: int, place: int, samples: np.ndarray) -> None:
        """Put samples into a slot, from a place on: float32, or integers of the network's type."""
        room = self._inputs[slot][place : place + len(samples)]
        if samples.dtype == room.dtype or self._quantizer is None:
            room[:] = samples
            return
        step = max(1, _CACHED // samples[0].size)
        for part in (slice(start, start + step) for start in range(0, len(samples), step)):
            room[part] = self._quantizer.quantize(samples[part])

    def begin(self, slot: int, size: int) -> None:
        """Have the first samples of a slot computed, after what was begun before.

        Raises:
            InstanceError: the process ended.
        """
        self._process.send([slot, size])

    def end(self) -> Optional[Exception]:
        """Wait until what was begun first is computed; why it could not be, None if it is.

        Raises:
            InstanceError: the process ended, or hangs.
        """
        try:
            self._process.answer(self._patience)
        except InstanceError:
            raise
        except Exception as error:
            return error
        return None

    def lives(self) -> bool:
        """Whether the process has not ended."""
        return self._process.lives()

    def kill(self) -> None:
        """End the process, whatever it does; the thread that waits for it gets an ``InstanceError``."""
        self._process.kill()

    def close(self) -> None:
        """End the process and close the channel; of the thread that uses it."""
        self._process.close()


def _variables(launch: InstanceLaunch) -> dict[str, str]:
    """The environment of an instance: its placement says how many threads it has and where, not this process's own."""
    own = launch.runtime.variables(launch.engine, launch.placement)
    inherited = {name: value for name, value in environment().items() if not name.startswith(_OF_THREADS)}
    return {**inherited, **own}
