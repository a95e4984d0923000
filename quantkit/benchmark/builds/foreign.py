"""Running programs of foreign environments."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Optional

from quantkit.errors import QuantkitError
from quantkit.host.current_folder import searching_elsewhere
from quantkit.host.dependent import dependent

# Lines of a program's output that messages show.
_LAST = 8


def foreign_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """A copy of an environment in which an interpreter finds neither another's modules nor the user's own.

    Nor does it find libraries or programs in the current folder.
    """
    kept = {name: value for name, value in searching_elsewhere(environment).items() if not name.startswith("PYTHON")}
    return {**kept, "PYTHONNOUSERSITE": "1"}


@contextmanager
def running(
    command: Sequence[str], environment: Mapping[str, str], merged: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """Start a program; when the block ends, kill it and all that it started, if it still runs.

    It ends with this process, too; see ``dependent``, also for programs that cannot be started. Standard output
    and standard error are pipes, or one pipe if they are ``merged``.

    Raises:
        QuantkitError: no process can be started.
    """
    try:
        with _signals_noted() as noted:
            process = subprocess.Popen(
                dependent(command),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if merged else subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                # Ctrl-C in the terminal is for the parent alone.
                start_new_session=True,
            )
    except OSError as error:
        raise QuantkitError(f"{command[0]} cannot be started: {error.strerror or error}") from error
    try:
        for handle in noted:
            handle()
        yield process
    finally:
        kill(process)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@contextmanager
def _signals_noted() -> Iterator[list[Callable[[], object]]]:
    """Defer signals and collect their handlers: an exception inside Popen would leave a program running unknown."""
    noted: list[Callable[[], object]] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    handlers: dict[int, Callable[[int, Optional[FrameType]], object]] = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        handler = signal.getsignal(number)
        if callable(handler):
            handlers[number] = handler
            signal.signal(number, lambda number, frame: noted.append(partial(handlers[number], number, frame)))
    try:
        yield noted
    finally:
        for each, handle in handlers.items():
            signal.signal(each, handle)


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a program that ``running`` started, and all that it started; does nothing if it has ended."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def ending(code: int) -> str:
    """How a program ended, as a predicate after its name."""
    if code >= 0:
        return f"ended with exit code {code}"
    names = {int(each): each.name for each in signal.Signals}
    return f"was killed by {names.get(-code, f'signal {-code}')}"


def last_lines(text: str) -> str:
    """The last lines of a program's output, each indented and after a line break."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "".join(f"\n    {line}" for line in lines[-_LAST:])
