"""Requests in the order in which they came, handed out in batches."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from threading import Condition, Lock, RLock
from typing import NamedTuple, Optional

import numpy as np

from quantkit.deployment.runner import Outputs, overdue
from quantkit.errors import UserError

# How often a piece of a request is handed out again after an instance was lost with it.
_RETRIES = 1


class Request:
    """Samples that somebody waits for; several instances may compute parts of them."""

    def __init__(self, data: np.ndarray, deadline: Optional[float]) -> None:
        """``data``: float32 (samples, ...); ``deadline``: by ``time.monotonic``, None for none."""
        self.data, self.deadline = data, deadline
        self.future: Future[Outputs] = Future()
        self._outputs: Outputs = []
        self._left = len(data)
        self._begun = False
        self._lock = Lock()

    def begin(self) -> bool:
        """Whether it is still wanted: it was not given up, has not failed and is not overdue."""
        with self._lock:
            if self.deadline is not None and time.monotonic() > self.deadline:
                self._fail(overdue())
            if not self._begun and not self.future.done():
                self._begun = self.future.set_running_or_notify_cancel()
            return self._begun and not self.future.done()

    def put(self, start: int, outputs: Sequence[np.ndarray]) -> None:
        """Take over the outputs of the samples from ``start`` on; the last ones answer the request."""
        with self._lock:
            if self.future.done():
                return
            if not self._outputs:
                self._outputs = [np.empty((len(self.data), *each.shape[1:]), np.float32) for each in outputs]
            for whole, part in zip(self._outputs, outputs):
                whole[start : start + len(part)] = part
            self._left -= len(outputs[0])
            if not self._left:
                self.future.set_result(self._outputs)

    def fail(self, error: Exception) -> None:
        """Answer with an error, unless it is answered."""
        with self._lock:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        # One that was given up is done.
        if not self.future.done() and (self._begun or self.future.set_running_or_notify_cancel()):
            self.future.set_exception(error)


class Piece(NamedTuple):
    """Some samples of a request, and how many instances were lost with them."""

    request: Request
    start: int
    stop: int
    lost: int = 0

    @property
    def data(self) -> np.ndarray:
        """The samples."""
        return self.request.data[self.start : self.stop]


class RequestQueue:
    """Requests that nobody has begun to compute: at most so many samples of them, beyond which callers wait."""

    def __init__(self, limit: int, instances: int) -> None:
        """``limit``: how many samples may wait; a request of more waits for an empty queue."""
        self._limit, self._instances = limit, instances
        self._waiting: deque[Piece] = deque()
        self._samples = 0
        self._idle = 0
        self._error: Optional[Exception] = None
        self._lock = RLock()
        self._arrived, self._room = Condition(self._lock), Condition(self._lock)

    def put(self, request: Request) -> None:
        """Let a request wait, as soon as there is room for it.

        Raises:
            DeadlineExceeded: there was none until the request's deadline.
            Exception: what ``fail`` was given.
        """
        size = len(request.data)
        patience = None if request.deadline is None else max(0.0, request.deadline - time.monotonic())

        def is_room() -> bool:
            return not self._samples or self._samples + size <= self._limit or self._error is not None

        with self._lock:
            if not self._room.wait_for(is_room, patience):
                raise overdue()
            if self._error is not None:
                raise self._error
            self._append(Piece(request, 0, size))

    def take(self, most: int, window: float) -> list[Piece]:
        """What an idle instance is to compute next: at most so many samples, and no more than its share of them.

        It waits until there are some, and for at most ``window`` seconds longer until there are ``most``. None once
        ``fail`` was called.
        """
        with self._lock:
            self._idle += 1
            try:
                while True:
                    self._arrived.wait_for(lambda: self._waiting or self._error is not None)
                    if window and self._error is None:
                        self._arrived.wait_for(lambda: self._samples >= most or self._error is not None, window)
                    share = -(-self._samples // self._idle)
                    if (pieces := self._cut(min(most, share))) or self._error is not None:
                        # Whoever waited for a full batch may have been woken in another's place.
                        self._arrived.notify(len(self._waiting))
                        return pieces
            finally:
                self._idle -= 1

    def take_ahead(self, most: int) -> list[Piece]:
        """What an instance is to compute after its present batch: a whole batch that no idle one is there for.

        Nothing that instances were lost with, of which each is computed with nothing else begun.
        """
        with self._lock:
            is_enough = self._samples >= most and not self._idle
            return self._cut(most) if is_enough and not self._waiting[0].lost else []

    def put_back(self, pieces: Iterable[Piece], error: Exception) -> None:
        """Hand out pieces again, as the first, since an instance was lost with them; each alone, as one may be why.

        Those that were lost before fail with ``error``.
        """
        with self._lock:
            for piece in reversed(list(pieces)):
                if piece.lost < _RETRIES and self._error is None:
                    self._append(piece._replace(lost=piece.lost + 1), first=True)
                else:
                    piece.request.fail(self._error or error)

    def fail(self, error: Exception) -> None:
        """Answer all requests with an error, those that wait and those that will come."""
        with self._lock:
            self._error = self._error or error
            for piece in self._waiting:
                piece.request.fail(self._error)
            self._waiting.clear()
            self._samples = 0
            self._arrived.notify_all()
            self._room.notify_all()

    def leave(self, error: Exception) -> None:
        """One of the instances takes no more, because of ``error``, with which all requests fail if it was the last."""
        with self._lock:
            self._instances -= 1
            if not self._instances:
                self.fail(error)

    def _append(self, piece: Piece, first: bool = False) -> None:
        if first:
            self._waiting.appendleft(piece)
        else:
            self._waiting.append(piece)
        self._samples += piece.stop - piece.start
        self._arrived.notify(piece.stop - piece.start)

    def _cut(self, most: int) -> list[Piece]:
        """The first ``most`` samples; of requests that are no longer wanted none."""
        pieces: list[Piece] = []
        while self._waiting and most:
            piece = self._waiting[0]
            if not piece.request.begin():
                self._drop_first()
                continue
            if piece.lost and pieces:
                break
            self._drop_first()
            stop = min(piece.stop, piece.start + most)
            if stop < piece.stop:
                self._append(piece._replace(start=stop), first=True)
            pieces.append(piece._replace(stop=stop))
            most -= stop - piece.start
            if piece.lost:
                break
        self._room.notify_all()
        return pieces

    def _drop_first(self) -> None:
        piece = self._waiting.popleft()
        self._samples -= piece.stop - piece.start


def closed() -> UserError:
    """The error of requests to a pool that was closed."""
    return UserError("the predictor is closed; load the bundle again")
