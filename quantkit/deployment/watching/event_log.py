"""Writing events at the end of a file, beside the work that they tell of."""

from __future__ import annotations

import fcntl
import json
import logging
import os
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Optional, Union

from quantkit.deployment.watching.events import Event, Started
from quantkit.errors import UserError
from quantkit.files.text import MEBIBYTE, check_name

LARGEST = 16 * MEBIBYTE
"""The bytes of a file, about; then it is renamed to NAME.1, in place of an older one, and another one is begun."""

_LOG = logging.getLogger(__name__)

# Events that wait for a slow disk, and seconds that the end of a deployment waits for it.
_MOST_WAITING, _PATIENCE = 1000, 5.0

LONGEST_LINE = MEBIBYTE // 4
"""More bytes than an event of any network has."""


class EventLog:
    """The end of a file of events, which a thread of its own writes.

    Where it cannot be written, such as on a full disk, events are lost, which is reported once in the log, and the
    deployment goes on. A file that is moved or deleted is begun anew.
    """

    def __init__(self, path: Union[str, os.PathLike[str]], first: Started) -> None:
        """Open the file, which may hold the events of earlier deployments, and write the first event.

        Raises:
            UserError: it cannot be written, holds something else, or another deployment writes to it.
        """
        try:
            self._file = _EventFile(Path(path), first)
        except OSError as error:
            raise UserError(f"cannot write events to {path}: {error.strerror or error}; choose another file") from error
        self._waiting: SimpleQueue[Optional[Event]] = SimpleQueue()
        self._is_late = False
        self._thread = Thread(target=_write_all, args=(self._waiting, self._file), name="quantkit events", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._file.close()
            raise

    def write(self, event: Event) -> None:
        """Have an event appended; where too many wait, it is lost."""
        waiting = self._waiting.qsize()
        if waiting < _MOST_WAITING:
            self._waiting.put(event)
            self._is_late = self._is_late and waiting > 0
        elif not self._is_late:
            self._is_late = True
            _LOG.error("events are lost, since %s is slow", self._file.path)

    def close(self) -> None:
        """Wait for the last events to be written, but not for long."""
        self._waiting.put(None)
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            _LOG.error("the last events are lost, since %s is slow", self._file.path)


def _write_all(waiting: SimpleQueue[Optional[Event]], file: _EventFile) -> None:
    lost = False
    with closing(file):
        while (event := waiting.get()) is not None:
            try:
                file.append(event)
            except OSError as error:
                if not lost:
                    _LOG.error("events are lost, since %s cannot be written: %s", file.path, error.strerror or error)
                lost = True
            else:
                lost = False


class _EventFile:
    """The open file."""

    def __init__(self, path: Path, first: Started) -> None:
        check_name(path)
        self.path, self._first = path, first
        self._file = self._opened()
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def append(self, event: Event) -> None:
        """Append an event.

        Raises:
            OSError: it cannot be written, or only a part of it; the reader leaves such a part out.
        """
        if not self._is_there():
            self._replace()
        elif os.fstat(self._file).st_size > LARGEST:
            os.replace(self.path, f"{self.path}.1")
            self._replace()
        elif not os.fstat(self._file).st_size:
            # Somebody has emptied it.
            self._begin()
        self._append(event)

    def close(self) -> None:
        # A fork may have the file open, too, and would keep the lock.
        fcntl.flock(self._file, fcntl.LOCK_UN)
        os.close(self._file)

    def _opened(self) -> int:
        # To read as well, nobody at the other end of a pipe is waited for.
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        file = os.open(self.path, flags, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            start = os.pread(file, LONGEST_LINE, 0)
            if start and not _is_started(start.partition(b"\n")[0]):
                raise OSError("it holds something else")
        except BlockingIOError:
            os.close(file)
            raise OSError("a deployment that is not closed writes to it") from None
        except OSError:
            os.close(file)
            raise
        return file

    def _replace(self) -> None:
        """Go on in another file, once it is open."""
        new = self._opened()
        self.close()
        self._file = new
        self._begin()

    def _begin(self) -> None:
        """Write the first event, or nothing of it: a reader knows the file by it."""
        before = os.fstat(self._file).st_size
        try:
            self._append(self._first)
        except OSError:
            os.ftruncate(self._file, before)
            raise

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._file))
        except FileNotFoundError:
            return False

    def _append(self, event: Event) -> None:
        line = json.dumps(asdict(event), allow_nan=False).encode() + b"\n"
        # What a full disk, or the end of a process, has left of a line is ended first.
        if size := os.fstat(self._file).st_size:
            line = line if os.pread(self._file, 1, size - 1) == b"\n" else b"\n" + line
        if os.write(self._file, line) < len(line):
            raise OSError("only a part of an event was written")


def _is_started(line: bytes) -> bool:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("event") == "started"
