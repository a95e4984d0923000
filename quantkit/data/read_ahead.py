"""Reading objects in ranges: neighbouring bytes come in one request of bounded size, a little ahead of their use."""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Optional

from quantkit.data.prefetch import unwanted
from quantkit.files.text import MEBIBYTE

LARGEST_WINDOW = 4 * MEBIBYTE
"""The most bytes that are asked for at once."""

# Windows that are held; 32 MiB.
_HELD = 8

# Bytes between two reads that are sooner fetched than asked for separately.
_GAP = MEBIBYTE // 4

# Seconds after which a thread that waits looks whether anybody still wants what it waits for.
_LOOK_EVERY = 0.2

Fetch = Callable[[str, int, int], bytes]
"""Gives the bytes of a file from a place up to another, exactly."""


@dataclass(frozen=True, eq=False)
class _Window:
    """Some neighbouring bytes of a file. ``follows``: they continue what was read before."""

    file: str
    start: int
    end: int
    follows: bool
    content: Future[bytes] = field(default_factory=Future)

    def holds(self, file: str, place: int) -> bool:
        return self.file == file and self.start <= place < self.end


class ReadAhead:
    """The bytes of files, fetched in windows that many threads share.

    A read that does not continue an earlier one fetches exactly what it wants. Reads that do fetch windows, each twice
    as large as the one before, up to ``LARGEST_WINDOW``, and the next one meanwhile. Each byte is fetched once while
    its window is held.
    """

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._lock = Lock()
        # The one that was used last is the last.
        self._windows: list[_Window] = []

    def read(self, file: str, start: int, end: int, size: int) -> bytes:
        """The bytes of a file of ``size`` bytes from ``start`` up to ``end``, or to its own end.

        Raises:
            CancelledError: the iteration that this thread prefetches for has ended.
            Exception: what fetching raises.
        """
        parts, place, end = [], start, min(end, size)
        while place < end:
            window = self._window_at(file, place, end, size)
            while not wait((window.content,), _LOOK_EVERY).done:
                if unwanted():
                    raise CancelledError
            parts.append(window.content.result()[place - window.start : end - window.start])
            place = window.end
        return b"".join(parts)

    def _window_at(self, file: str, place: int, end: int, size: int) -> _Window:
        """The window that holds a place, being fetched or there."""
        new = []
        with self._lock:
            window = self._held(file, place)
            if window is None:
                before = self._before(file, place)
                wanted = end - place if before is None else max(end - place, 2 * (before.end - before.start))
                window = self._add(file, place, wanted, size, before is not None)
                new.append(window)
            else:
                self._windows.remove(window)
                self._windows.append(window)
            if window.follows and window.end < size and self._held(file, window.end) is None:
                new.append(self._add(file, window.end, 2 * (window.end - window.start), size, True))
        for each in new:
            # Daemons: nobody waits for a store that does not answer when the process ends.
            try:
                Thread(target=self._fill, args=(each,), name="read-ahead", daemon=True).start()
            except RuntimeError:
                # There can be no more threads.
                self._fill(each)
        return window

    def _held(self, file: str, place: int) -> Optional[_Window]:
        return next((window for window in self._windows if window.holds(file, place)), None)

    def _before(self, file: str, place: int) -> Optional[_Window]:
        """The window that ends at a place, or shortly before."""
        near = (each for each in self._windows if each.file == file and 0 <= place - each.end <= _GAP)
        return max(near, key=lambda window: window.end, default=None)

    def _add(self, file: str, start: int, length: int, size: int, follows: bool) -> _Window:
        window = _Window(file, start, min(start + min(length, LARGEST_WINDOW), size), follows)
        self._windows.append(window)
        del self._windows[:-_HELD]
        return window

    def _fill(self, window: _Window) -> None:
        """Fetch what a window holds; a failure is for those who wait for it, and whoever comes later tries again."""
        try:
            window.content.set_result(self._fetch(window.file, window.start, window.end))
        except BaseException as error:
            with self._lock:
                if window in self._windows:
                    self._windows.remove(window)
            window.content.set_exception(error)


class RangeFile(io.RawIOBase):
    """A file to read, whose bytes a ``ReadAhead`` fetches; what is wanted first is fetched at once."""

    def __init__(self, ahead: ReadAhead, file: str, size: int, start: int, end: Optional[int]) -> None:
        self._ahead, self._file, self._size = ahead, file, size
        self._start = self._place = start
        first = min(size if end is None else end, start + LARGEST_WINDOW)
        self._first = ahead.read(file, start, first, size)

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """The place of the next byte."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to another place; see ``io.IOBase``."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(0, origin + offset)
        return self._place

    def read(self, size: Optional[int] = -1, /) -> bytes:
        """So many of the next bytes; all where it is negative or None."""
        start = self._place
        end = max(start, self._size if size is None or size < 0 else min(start + size, self._size))
        begin = start - self._start
        if begin >= 0 and end - self._start <= len(self._first):
            content = self._first[begin : end - self._start]
        else:
            content = self._ahead.read(self._file, start, end, self._size)
        self._place = start + len(content)
        return content
