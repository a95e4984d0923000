"""A queue in front of instances: idle instances serve requests in the order of arrival."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Optional

Serve = Callable[[], object]
"""Serves one request on one instance and returns when it is done."""


@dataclass(frozen=True)
class Request:
    """A request and its time of arrival, in ns of the monotonic clock."""

    number: int
    arrived: int


class Dispatcher:
    """One thread for each instance; use it as a context manager.

    When it exits, all requests have been served, unless an error or Ctrl-C ended it: then no further request begins,
    and those in progress end by themselves.

    Args:
        serve: a function for each instance, always called in the same thread.
        done: called with every request that was served, in the thread that served it.
        failed: called once when an instance or ``done`` fails; after that no requests are served.
    """

    def __init__(self, serve: Sequence[Serve], done: Callable[[Request], None], failed: Callable[[], None]) -> None:
        self.error: Optional[Exception] = None
        self._waiting: SimpleQueue[Optional[Request]] = SimpleQueue()
        self._ended = False
        self._done = done
        self._failed = failed
        self._lock = threading.Lock()
        # An instance that hangs must not keep the process alive.
        self._threads = [threading.Thread(target=self._work, args=(each,), daemon=True) for each in serve]

    def submit(self, number: int) -> None:
        """Put a request at the end of the queue."""
        self._waiting.put(Request(number, time.monotonic_ns()))

    def stop(self) -> None:
        """Begin with no further request; those in progress end by themselves."""
        self._ended = True

    def join(self, seconds: float) -> None:
        """Wait so long for the requests in progress."""
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _work(self, serve: Serve) -> None:
        while (request := self._waiting.get()) is not None and not self._ended:
            try:
                serve()
                self._done(request)
            except Exception as error:
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        with self._lock:
            first = self.error is None
            self.error = self.error or error
            self._ended = True
        if first:
            self._failed()

    def __enter__(self) -> Dispatcher:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: object, *others: object) -> None:
        self._ended = self._ended or kind is not None
        for _ in self._threads:
            self._waiting.put(None)
        if not self._ended:
            for thread in self._threads:
                thread.join()
