"""Engine: a worker's hold on the process that runs networks for it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Optional

from quantkit.cluster import engine_process
from quantkit.cluster.engine_process import read_frame, write_frame
from quantkit.cluster.job import Shard
from quantkit.errors import EngineError, error_of

# Dask sets all of them for its workers.
_OF_LIBRARIES = ("MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Engine:
    """A process of its own, pinned to some hardware threads."""

    def __init__(self, cpus: Sequence[int], threads: int) -> None:
        """Start the process; ``threads`` is how many the engine has, whatever it is pinned to.

        Raises:
            EngineError: it cannot be started.
        """
        # Nothing is imported from the current folder.
        command = [sys.executable, "-P", "-m", engine_process.__name__, *map(str, cpus)]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=_environment(os.environ, threads),
                # Ctrl-C in a terminal is for the client, which ends its engines.
                start_new_session=True,
            )
        except OSError as error:
            raise EngineError(f"cannot start {sys.executable} for an engine: {error.strerror or error}") from error
        self.job: Optional[str] = None

    def load(self, name: str, content: bytes) -> None:
        """Take up the job called ``name`` unless it is loaded.

        Raises:
            QuantkitError: it cannot be loaded there.
        """
        if self.job != name:
            self.job = None
            self._ask("load", content)
            self.job = name

    def run(self, shard: Shard) -> bytes:
        """The partial result over a shard of the loaded job; see ``arrays.to_bytes``.

        Raises:
            QuantkitError: what the aggregation raised there.
            EngineError: the process ended.
        """
        return self._ask("run", shard)

    def stop(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            # What was not sent stays unsent.
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def _ask(self, verb: str, content: Any) -> bytes:
        assert self._process.stdin is not None and self._process.stdout is not None
        reply = None
        # ``stop`` closes the pipes of an engine that another thread waits for.
        with suppress(BrokenPipeError, ValueError):
            write_frame(self._process.stdin, pickle.dumps((verb, content), pickle.HIGHEST_PROTOCOL))
            reply = read_frame(self._process.stdout)
        if reply is None:
            status = self._process.wait()
            raise EngineError(
                f"the engine's process ended with status {status}; its last words are in the worker's log"
            )
        answer = pickle.loads(reply)
        if answer[0] == "done":
            return bytes(answer[1])
        raise error_of(answer[1], answer[2], EngineError)


def _environment(inherited: Mapping[str, str], threads: int) -> dict[str, str]:
    kept = {name: value for name, value in inherited.items() if name not in _OF_LIBRARIES}
    return {**kept, "OMP_NUM_THREADS": str(threads)}
