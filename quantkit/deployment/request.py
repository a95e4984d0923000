"""A request: samples that somebody waits for, and the pieces of it that are computed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from threading import RLock
from typing import NamedTuple, Optional

import numpy as np

from quantkit.deployment.runner import Outputs, overdue


class Request:
    """Samples that somebody waits for; several instances may compute parts of them."""

    def __init__(self, data: np.ndarray, deadline: Optional[float] = None) -> None:
        """Begin.

        Args:
            data: float32, or integers of the network's quantizer, (samples, ...).
            deadline: by ``time.monotonic``; None for none.
        """
        self.data, self.deadline = data, deadline
        self.future: Future[Outputs] = Future()
        self._outputs: Outputs = []
        self._left = len(data)
        self._begun = False
        self._lock = RLock()

    @property
    def patience(self) -> Optional[float]:
        """Seconds until the deadline, at least 0; None if there is none."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def begin(self) -> bool:
        """Whether it is still wanted: it was not given up, has not failed and is not overdue."""
        with self._lock:
            if self.patience == 0:
                self.fail(overdue())
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
        """Answer with an error, unless it is answered or was given up."""
        with self._lock:
            if not self.future.done() and (self._begun or self.future.set_running_or_notify_cancel()):
                self.future.set_exception(error)

    def answer(self) -> Outputs:
        """Wait for the outputs; if they come too late, the request is given up.

        Raises:
            DeadlineExceeded: the deadline has passed.
            QuantkitError: why they could not be computed.
        """
        try:
            error = self.future.exception(self.patience)
        except TimeoutError as late:
            self.future.cancel()
            raise overdue() from late
        if error is not None:
            # Others wait for the same one, each of whom would lengthen its traceback.
            raise error.with_traceback(None)
        return self.future.result()


class Piece(NamedTuple):
    """Some samples of a request, and how many instances were lost with them."""

    request: Request
    start: int
    stop: int
    lost: int = 0

    @property
    def size(self) -> int:
        """The number of samples."""
        return self.stop - self.start

    @property
    def data(self) -> np.ndarray:
        """The samples."""
        return self.request.data[self.start : self.stop]
