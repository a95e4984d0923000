"""One process of a pool and the channel to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import prod
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, Optional

import numpy as np

from quantkit.backends.mxnet.subprocesses import environment, module_command
from quantkit.benchmark.placement.placement import Placement
from quantkit.bundle.bundle import Bundle
from quantkit.deployment import instance_process
from quantkit.deployment.instance_process import Settings
from quantkit.deployment.runtime import Runtime
from quantkit.deployment.slots import Slots, make_memory
from quantkit.errors import EngineError, InstanceError, error_of
from quantkit.files.text import MEBIBYTE
from quantkit.lowering.input_quantizer import InputQuantizer

# Seconds that an answer may take, beside ten times what it took before; how long a network may take to load.
_LEAST_PATIENCE = 30.0
_LOADING_PATIENCE = 600.0

# Handing over and answering take longer than small networks: so many samples of one request go at once, or as many as
# fit into so many bytes with their outputs.
_TOGETHER = 16
_ROOM = 16 * MEBIBYTE

# So many values are quantized at a time, which stay in the processor's cache.
_CACHED = 1 << 17

# Seconds between looks whether the process lives: a fork of this one may hold its channel open.
_LOOK_EVERY = 1.0


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
                self._channel, theirs = Pipe()
                with theirs:
                    self._process = subprocess.Popen(
                        self._command(launch, theirs.fileno(), memory),
                        env=environment(**launch.runtime.variables(launch.engine, launch.placement)),
                        stdin=subprocess.DEVNULL,
                        pass_fds=(theirs.fileno(), memory),
                        # Ctrl-C in a terminal is for this process, which ends its instances.
                        start_new_session=True,
                    )
            finally:
                os.close(memory)
        except OSError as error:
            raise InstanceError("start", f"an instance cannot be started: {error.strerror or error}") from error
        self._patience = _LOADING_PATIENCE
        self._quantizer: Optional[InputQuantizer] = None
        self._inputs = self.slots.inputs_of("float32")

    @staticmethod
    def _command(launch: InstanceLaunch, channel: int, memory: int) -> Sequence[str]:
        settings = Settings(
            str(launch.directory),
            launch.bundle.sha256,
            launch.engine,
            _listed(launch.placement.cpus),
            _listed(launch.placement.nodes),
            launch.batch,
            launch.most,
            channel,
            memory,
        )
        return module_command(instance_process.__name__, json.dumps(asdict(settings)))

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
        loaded = self._answer()
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
        try:
            self._channel.send_bytes(json.dumps([slot, size]).encode())
        except OSError as error:
            raise self._gone() from error

    def end(self) -> Optional[Exception]:
        """Wait until what was begun first is computed; why it could not be, None if it is.

        Raises:
            InstanceError: the process ended, or hangs.
        """
        try:
            self._answer()
        except InstanceError:
            raise
        except Exception as error:
            return error
        return None

    def lives(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process, whatever it does; the thread that waits for it gets an ``InstanceError``."""
        self._process.kill()

    def close(self) -> None:
        """End the process and close the channel; of the thread that uses it."""
        self._process.kill()
        self._process.wait()
        self._channel.close()

    def _answer(self) -> dict[str, Any]:
        deadline = time.monotonic() + self._patience
        try:
            while not self._channel.poll(_LOOK_EVERY):
                if not self.lives():
                    raise self._gone()
                if time.monotonic() > deadline:
                    self._process.kill()
                    raise InstanceError("hung", f"an instance gave no answer for {self._patience:.0f} s")
            answer: dict[str, Any] = json.loads(self._channel.recv_bytes())
        except (EOFError, OSError) as error:
            raise self._gone() from error
        if "error" in answer:
            kind, message = answer["error"]
            raise error_of(kind, message, EngineError)
        return answer

    def _gone(self) -> InstanceError:
        self._process.kill()
        code = self._process.wait()
        how = f"was killed by {_signal(-code)}" if code < 0 else f"ended with exit code {code}"
        return InstanceError("killed" if code < 0 else "crashed", f"an instance {how}")


def _signal(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _listed(numbers: Optional[Sequence[int]]) -> Optional[list[int]]:
    return None if numbers is None else list(numbers)
