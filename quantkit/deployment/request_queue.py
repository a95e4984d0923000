"""Requests in the order in which they came, handed out in batches."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from threading import Condition, RLock
from typing import Optional

from quantkit.deployment.request import Piece, Request
from quantkit.deployment.runner import RunnerStatus, overdue

# How often a piece of a request is handed out again after an instance was lost with it.
_RETRIES = 1


class RequestQueue:
    """Requests that nobody has begun to compute: at most so many samples of them, beyond which callers wait."""

    def __init__(self, limit: int, instances: int, places: Optional[int] = None) -> None:
        """Begin with none.

        Args:
            limit: how many samples may wait; a request of more waits for an empty queue.
            instances: how many take requests.
            places: how many batches are computed at a time, if that has a bound: whoever takes one needs a place, and
                gives it back. None: whoever takes one has a place of its own.
        """
        self._limit, self._instances, self._places = limit, instances, places
        self._waiting: deque[Piece] = deque()
        # Those that wait for room, in the order in which they came.
        self._line: deque[Request] = deque()
        self._samples = 0
        self._batches: Counter[int] = Counter()
        self._idle = 0
        self._error: Optional[Exception] = None
        self._lock = RLock()
        self._arrived, self._room = Condition(self._lock), Condition(self._lock)

    def put(self, request: Request) -> None:
        """Let a request wait, as soon as there is room for it; one that was given up meanwhile is left out.

        Raises:
            DeadlineExceeded: there was none until the request's deadline.
            Exception: what ``fail`` was given.
        """
        size = len(request.data)

        def may_enter() -> bool:
            is_room = not self._samples or self._samples + size <= self._limit
            return (self._line[0] is request and is_room) or self._error is not None or request.future.done()

        with self._lock:
            self._line.append(request)
            try:
                in_time = self._room.wait_for(may_enter, request.patience)
            finally:
                self._line.remove(request)
                self._room.notify_all()
            if self._error is not None:
                raise self._error.with_traceback(None)
            if not in_time:
                raise overdue()
            if not request.future.done():
                self._append(Piece(request, 0, size))

    def put_at_once(self, request: Request) -> bool:
        """Let a request wait if there is room for it now, and nobody waits for some; whether it does.

        Raises:
            Exception: what ``fail`` was given.
        """
        size = len(request.data)
        with self._lock:
            if self._error is not None:
                raise self._error.with_traceback(None)
            if self._line or (self._samples and self._samples + size > self._limit):
                return False
            self._append(Piece(request, 0, size))
            return True

    def pass_by(self, size: int) -> bool:
        """Take a place for a request of so many samples that was not put here, if nothing waits and one is free.

        Whoever has taken it computes the request, and gives the place back.

        Raises:
            Exception: what ``fail`` was given.
        """
        with self._lock:
            if self._error is not None:
                raise self._error.with_traceback(None)
            if self._waiting or self._line or not self._places:
                return False
            self._places -= 1
            self._batches[size] += 1
            return True

    def give_back(self) -> None:
        """Give back a place."""
        with self._lock:
            self._places = (self._places or 0) + 1
            self._arrived.notify(self._samples)

    def take(self, most: int, window: float, patience: float, longest: int = 0) -> Optional[list[Piece]]:
        """What an idle instance is to compute next: at most ``most`` samples; None when there will be no more.

        Idle instances share what waits, unless they wait for full batches.

        Args:
            most: samples.
            window: seconds to wait for as many, after the first.
            patience: seconds to wait for the first; the list is empty if there is none until then.
            longest: the most samples where all are of one request, if that is more.
        """
        with self._lock:
            self._idle += 1
            try:
                self._arrived.wait_for(self._may_take, patience)
                if window and self._waiting:
                    self._arrived.wait_for(lambda: self._samples >= most or self._error is not None, window)
                if self._error is not None:
                    return None
                if not self._may_take():
                    return []
                idle = self._idle if self._places is None else self._places
                pieces = self._cut(most if window else min(most, -(-self._samples // idle)), longest)
                self._count(pieces, most)
                if pieces and self._places is not None:
                    self._places -= 1
                # Whoever waits for a full batch may have been woken in another's place.
                self._arrived.notify(self._samples)
                return pieces
            finally:
                self._idle -= 1

    def _may_take(self) -> bool:
        """Whether there is something to take and a place for it, or there will be no more."""
        return bool(self._waiting and self._places != 0) or self._error is not None

    def take_ahead(self, most: int, longest: int = 0) -> list[Piece]:
        """What an instance is to compute after its present batch: a whole batch that no idle one is there for.

        Nothing that instances were lost with, of which each is computed with nothing else begun. For ``longest``, see
        ``take``.
        """
        with self._lock:
            if self._samples < most or self._idle or self._waiting[0].lost:
                return []
            pieces = self._cut(most, longest)
            self._count(pieces, most)
            return pieces

    def put_back(self, pieces: Iterable[Piece], error: Optional[Exception] = None) -> None:
        """Hand out pieces again, as the first.

        With an error, they were being computed: each is computed alone, as one may be why, and those for which it is
        the second time fail with it.
        """
        with self._lock:
            for piece in reversed(list(pieces)):
                lost = piece.lost if error is None else piece.lost + 1
                if self._error is not None:
                    piece.request.fail(self._error)
                elif error is not None and lost > _RETRIES:
                    piece.request.fail(error)
                else:
                    self._append(piece._replace(lost=lost), first=True)

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

    def status(self) -> RunnerStatus:
        """See ``Runner``."""
        with self._lock:
            waiting = self._samples + sum(len(request.data) for request in self._line)
            batches = {size: number for size, number in self._batches.items() if size and number}
            return RunnerStatus(waiting, batches, self._error is not None)

    def _append(self, piece: Piece, first: bool = False) -> None:
        if first:
            self._waiting.appendleft(piece)
        else:
            self._waiting.append(piece)
        self._samples += piece.size
        self._arrived.notify(piece.size)

    def _cut(self, most: int, longest: int) -> list[Piece]:
        """The first ``most`` samples, or ``longest`` of one request; of requests that are no longer wanted none."""
        pieces: list[Piece] = []
        while self._waiting and most > 0:
            piece = self._waiting[0]
            if piece.lost and pieces and piece.request.begin():
                break
            self._waiting.popleft()
            self._samples -= piece.size
            if not piece.request.begin():
                continue
            # Of a long request the others are left their share, be they idle or not.
            share = -(-len(piece.request.data) // max(1, self._instances))
            stop = min(piece.stop, piece.start + (most if pieces else max(most, min(longest, share))))
            if stop < piece.stop:
                self._append(piece._replace(start=stop), first=True)
            pieces.append(piece._replace(stop=stop))
            most -= pieces[-1].size
            if piece.lost:
                break
        self._room.notify_all()
        return pieces

    def _count(self, pieces: Sequence[Piece], batch: int) -> None:
        """Count the batches that pieces are computed in."""
        whole, rest = divmod(sum(piece.size for piece in pieces), batch)
        self._batches[batch] += whole
        self._batches[rest] += 1
