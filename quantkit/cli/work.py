"""What a command has done so far, for those who must say so when it ends early; and ending it at once."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

INTERRUPTED = 130

# Python runs no signal handler while the engine computes. Who pressed Ctrl-C should not wait longer than a second.
_PATIENCE = 0.6


class Work:
    """The state of one command: how it was asked to speak, and what there is of its work (``kept``)."""

    def __init__(self) -> None:
        self.json = False
        self.debug = False
        self._writing = False
        self.kept = "nothing was written"

    @contextmanager
    def writing(self, path: Path) -> Iterator[None]:
        """While ``path`` is written nobody ends the process; afterwards it counts as written."""
        self._writing = True
        try:
            yield
            self.kept = f"{path} is complete"
        finally:
            self._writing = False

    def error(self, kind: str, message: str) -> None:
        """Print an error: its message on standard error, and with --json an object on standard output."""
        print(f"Error: {message}", file=sys.stderr, flush=True)
        self.error_object(kind, message)

    def error_object(self, kind: str, message: str) -> None:
        """With --json print an error as an object on standard output."""
        if self.json:
            print_json({"error": {"type": kind, "message": message}})

    def interrupted(self) -> None:
        """Say that the user ended the work, and what there is of it."""
        # The terminal has put ^C on the line, or a progress bar stands there.
        fresh = "\n" if sys.stderr.isatty() else ""
        print(f"{fresh}interrupted; {self.kept}", file=sys.stderr, flush=True)
        self.error_object("Interrupted", f"interrupted; {self.kept}")

    def end_on_interrupt(self) -> None:
        """From now on end the process soon after Ctrl-C, even where the engine keeps the main thread busy."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=self._end_after, args=(reader,), daemon=True).start()

    def _end_after(self, reader: int) -> None:
        while os.read(reader, 1) != bytes([signal.SIGINT]):
            pass
        time.sleep(_PATIENCE)
        while self._writing:
            time.sleep(0.05)
        self.interrupted()
        os._exit(INTERRUPTED)


def print_json(result: Any) -> None:
    """Print one object on standard output."""
    print(json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False), flush=True)
