"""One worker process and the private channel to it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Optional

from quantkit.backends.registry import MXNET
from quantkit.errors import InstanceError

WORKER = Path(__file__).with_name("worker.py")


def worker_files(engine: str) -> tuple[Path, Path]:
    """The files that run in the interpreter of a build: the worker, and its part for the engine."""
    return WORKER, WORKER.with_name(f"worker_{engine}.py")


# Seconds that a process may be stopped (SIGSTOP, a debugger); it does not continue by itself.
_STOPPED_FOR = 5.0

# Seconds until a process ends after it has closed its channel.
_ENDS_WITHIN = 5.0
_LAST_LINES = 20


class Instance:
    """A worker in a process group of its own, from start to kill; use it as a context manager.

    Args:
        command: the interpreter and what comes before it, such as numactl; the worker's own arguments are added.
        environment: the worker's whole environment.
        cpus: the hardware threads that the worker binds itself to, None if that is already done or unwanted.
        nodes: the memory nodes, likewise.
        worker: the file to run.
        engine: the engine that the worker loads, with a number of ``threads``.

    Raises:
        InstanceError: the process cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        cpus: Optional[Sequence[int]] = None,
        nodes: Optional[Sequence[int]] = None,
        worker: Path = WORKER,
        engine: str = MXNET.name,
        threads: int = 1,
    ) -> None:
        self._buffer = b""
        try:
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
            to_read, self._write = os.pipe()
            self._read, to_write = os.pipe()
        except OSError as error:
            reason = f"cannot have its files: {error.strerror or error}; `ulimit -n` sets how many there may be"
            raise InstanceError("start", reason) from error
        settings = {
            "engine": engine, "threads": threads, "read": to_read, "write": to_write, "cpus": cpus, "nodes": nodes,
            "parent": os.getpid(),
        }  # fmt: skip
        try:
            self._process = subprocess.Popen(
                # Isolated: the worker's folder has modules named as some of the standard library.
                [*command, "-I", str(worker), "serve", json.dumps(settings)],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=self._stderr,
                stderr=self._stderr,
                pass_fds=(to_read, to_write),
                # Ctrl-C in the terminal is for the parent alone.
                start_new_session=True,
            )
        except OSError as error:
            self._close()
            raise InstanceError("start", f"cannot start {command[0]}: {error.strerror or error}") from error
        finally:
            os.close(to_read)
            os.close(to_write)

    @property
    def pid(self) -> int:
        """The worker's process number."""
        return self._process.pid

    def ask(self, command: str, patience: float, **arguments: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; see ``tell`` and ``answer``."""
        self.tell(command, **arguments)
        return self.answer(command, patience)

    def tell(self, command: str, **arguments: Any) -> None:
        """Send a command.

        Raises:
            InstanceError: the process is gone.
        """
        try:
            os.write(self._write, (json.dumps({"command": command, **arguments}) + "\n").encode())
        except BrokenPipeError as error:
            raise self._gone() from error

    def answer(self, command: str, patience: float) -> dict[str, Any]:
        """Wait for the answer to a command, as long as the worker gives a sign of life every ``patience`` seconds.

        Raises:
            InstanceError: the process died, is stopped, hangs, reports an error, or says something else.
        """
        while True:
            line = self._line(patience)
            try:
                answer = json.loads(line)
                event = answer["event"]
            except (ValueError, TypeError, KeyError) as error:
                raise self._error("protocol", f"sent {line[:80]!r}, which is no answer") from error
            if event == "error":
                raise self._error("crashed", f"could not {answer['command']}: {answer['message']}")
            if event == command:
                return dict(answer)
            if event != "progress":
                raise self._error("protocol", f"answered {event!r} to {command!r}")

    def _line(self, patience: float) -> bytes:
        deadline = time.monotonic() + patience
        stopped_since = None
        # Unlike select(), it takes descriptors above 1023, which many instances come to.
        channel = select.poll()
        channel.register(self._read, select.POLLIN)
        while b"\n" not in self._buffer:
            if channel.poll(1000):
                block = os.read(self._read, 1 << 16)
                if not block:
                    raise self._gone()
                self._buffer += block
                continue
            now = time.monotonic()
            stopped_since = (stopped_since or now) if self._state() in ("T", "t") else None
            if stopped_since is not None and (now > deadline or now - stopped_since > _STOPPED_FOR):
                raise self._error("hung", "was stopped (SIGSTOP or a debugger)")
            if now > deadline:
                raise self._error("hung", f"gave no sign of life for {patience:.0f} s")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _state(self) -> str:
        """The process's state as in proc(5); empty if it cannot be read."""
        with suppress(OSError):
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return ""

    def _gone(self) -> InstanceError:
        """The error for a process that closed its channel."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDS_WITHIN)
        code = self._process.poll()
        if code is None:
            return self._error("protocol", "closed its channel")
        if code < 0:
            return self._error("killed", f"was killed by {signal.Signals(-code).name}")
        return self._error("crashed", f"ended with exit code {code}")

    def _error(self, kind: str, message: str) -> InstanceError:
        return InstanceError(kind, f"process {self.pid} {message}", self.last_lines())

    def last_lines(self) -> tuple[str, ...]:
        """The last lines that the process wrote to standard output or standard error."""
        size = os.fstat(self._stderr.fileno()).st_size
        tail = os.pread(self._stderr.fileno(), 16384, max(0, size - 16384))
        return tuple(tail.decode(errors="replace").splitlines()[-_LAST_LINES:])

    def kill(self) -> None:
        """Kill the process and all that it started; a second call does nothing."""
        if self._stderr.closed:
            return
        # A process keeps its number until it is waited for, so no other process can have it.
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._close()

    def _close(self) -> None:
        os.close(self._read)
        os.close(self._write)
        # Its file has no name and is read no more.
        with suppress(OSError):
            self._stderr.close()

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
