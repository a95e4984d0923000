"""Work: the state of a command, so that it can be ended early and say what is complete."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Optional

from quantkit.cli.ending import SIGNALS, exit_code, on_end
from quantkit.errors import QuantkitError
from quantkit.files.temporary import remove_own
from quantkit.host.children import kill_descendants

# Python runs no signal handler while the engine computes. Ctrl-C should take effect within a second.
_PATIENCE = 0.6

# Once the main thread has noticed, it cleans up: children, temporary files, the state of a run.
_UNWINDING = 20.0
_TICK = 0.05

_LONGEST_MESSAGE = 8_000

# Characters that control a terminal, change the reading direction or break lines, except line feeds and tabs.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class Work:
    """The state of one command: its output options, and what its work has left behind (``kept``)."""

    def __init__(self) -> None:
        self.json = False
        self.debug = False
        self._writing = False
        self._noticed = False
        self._told = self._as_asked = False
        self.signal: Optional[int] = None
        self.kept = "nothing was written"

    @contextmanager
    def writing(self, path: Path) -> Iterator[None]:
        """Keep signals from ending the process while ``path`` is written; afterwards, ``path`` counts as written."""
        self._writing = True
        before = _identity(path)
        try:
            yield
            self.kept = f"{path} is complete"
        finally:
            # A signal may come after the last step.
            if _identity(path) != before:
                self.kept = f"{path} is complete"
            self._writing = False

    def error(self, kind: str, message: str) -> None:
        """Print an error: its message on standard error, and with --json an object on standard output."""
        message = shortened(message)
        with suppress(OSError):
            print(without_controls(f"Error: {message}"), file=sys.stderr, flush=True)
        self.error_object(kind, message)

    def error_object(self, kind: str, message: str) -> None:
        """With --json print an error as an object on standard output."""
        if self.json:
            # If nothing can be printed, the exit code remains.
            with suppress(OSError, QuantkitError):
                print_json({"error": {"type": kind, "message": message}})

    def interrupted(self) -> None:
        """Print that the command was interrupted, and what is complete."""
        if self._told or self._as_asked:
            return
        self._told = True
        by = "" if self.signal in (None, signal.SIGINT) else f" by {signal.Signals(self.signal).name}"
        # The line holds the terminal's ^C or a progress bar.
        with suppress(OSError):
            fresh = "\n" if sys.stderr.isatty() else ""
            print(f"{fresh}interrupted{by}; {without_controls(self.kept)}", file=sys.stderr, flush=True)
        self.error_object("Interrupted", f"interrupted{by}; {self.kept}")

    def ended_as_asked(self) -> None:
        """Count a signal as the proper end of a command that goes on until it is told to end."""
        self._as_asked = True

    @property
    def ended(self) -> int:
        """The exit code after a signal."""
        if self._as_asked:
            return 0
        return exit_code(self.signal or signal.SIGINT)

    def end_on_signals(self) -> None:
        """End the process soon after Ctrl-C, SIGTERM or SIGHUP from now on, even while the engine keeps it busy.

        Its children end too, and incomplete files are removed. A second signal ends it at once; the next run then
        removes what is left.
        """
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        on_end(self._notice)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=self._end_after, args=(reader,), daemon=True).start()

    def _notice(self, number: int) -> bool:
        """Whether this is the first signal; the second one is left to the thread that ends the process."""
        first, self._noticed = not self._noticed, True
        self.signal = self.signal or number
        return first

    def _end_after(self, reader: int) -> None:
        while (number := os.read(reader, 1)[0]) not in SIGNALS:
            pass
        self.signal = number
        begun = time.monotonic()
        while self._writing or time.monotonic() - begun < (_UNWINDING if self._noticed else _PATIENCE):
            if select.select([reader], [], [], _TICK)[0] and os.read(reader, 1)[0] in SIGNALS:
                self._as_asked = False
                break
        else:
            remove_own()
        kill_descendants()
        self.interrupted()
        os._exit(self.ended)


def _identity(path: Path) -> Optional[tuple[int, int]]:
    """What distinguishes a file or folder from another one of the same name; None if there is none."""
    with suppress(OSError):
        status = path.stat()
        return status.st_dev, status.st_ino
    return None


def without_controls(text: str) -> str:
    """A text without characters that control a terminal: names in untrusted files may hold anything."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def shortened(message: str) -> str:
    """A message, without its middle if it is too long to read: names in untrusted files may have any length.

    The beginning says what is wrong, the end how to fix it.
    """
    left_out = len(message) - _LONGEST_MESSAGE
    if left_out <= 0:
        return message
    half = _LONGEST_MESSAGE // 2
    return f"{message[:half]} [... {left_out} characters ...] {message[-half:]}"


def print_json(result: Mapping[str, object]) -> None:
    """Print one object on standard output; see ``print_result``."""
    print_result(without_controls(json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False)))


def print_result(text: str) -> None:
    """Print on standard output as it is; untrusted parts of ``text`` have been through ``without_controls``.

    Raises:
        BrokenPipeError: nobody reads.
        QuantkitError: it cannot be written, as on a full disk.
    """
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise QuantkitError(
            f"cannot write to standard output: {error.strerror or error}; free space or send it elsewhere"
        ) from error
