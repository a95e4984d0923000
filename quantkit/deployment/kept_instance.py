"""An instance that is replaced whenever it is lost."""

from __future__ import annotations

import logging
import time
import warnings
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import chain
from threading import RLock, Thread, current_thread
from typing import Optional

from quantkit.deployment.instance import Instance, InstanceLaunch
from quantkit.deployment.request import Piece
from quantkit.deployment.request_queue import RequestQueue
from quantkit.deployment.slots import SLOTS
from quantkit.errors import InstanceError, QuantkitError
from quantkit.lowering.input_quantizer import InputQuantizer

_LOG = logging.getLogger(__name__)

# How often in a row an instance is started again before it is given up, and the pause before each time in seconds.
_RESTARTS = 3
_PAUSE = 0.5

# Seconds between looks whether an idle instance lives.
_LOOK_EVERY = 1.0


class InstanceWarning(UserWarning):
    """An instance is not where it should be, or was given up."""


class KeptInstance:
    """An instance, whichever process it is at the moment, and the thread that hands it batches.

    Attributes:
        lost: how many processes were lost while they ran.
    """

    def __init__(self, launch: InstanceLaunch, queue: RequestQueue, window: float) -> None:
        self._launch, self._queue, self._window = launch, queue, window
        self._instance: Optional[Instance] = None
        self._loaded: Future[Optional[InputQuantizer]] = Future()
        self._closed = False
        self.lost = 0
        self._lock = RLock()
        # Its processes end with it, and it with the interpreter.
        self._thread = Thread(target=self._work, name="quantkit instance", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """The process's number; 0 while there is none."""
        instance = self._instance
        return 0 if instance is None else instance.pid

    def wait(self) -> Optional[InputQuantizer]:
        """Return when the network is loaded for the first time; see ``Instance.wait``.

        Raises:
            QuantkitError: it cannot be.
        """
        return self._loaded.result()

    def close(self) -> None:
        """End it; it may still live for a moment."""
        with self._lock:
            self._closed = True
            if self._instance is not None:
                self._instance.kill()

    def join(self) -> None:
        """Return when it has ended; at once in its own thread, where the garbage collector may end the pool."""
        if current_thread() is not self._thread:
            self._thread.join()

    def _work(self) -> None:
        try:
            self._keep()
        except Exception as error:  # whatever it is, callers must hear of it
            # First, since a warning may be an error.
            self._queue.leave(error)
            if not self._loaded.done():
                self._loaded.set_exception(error)
            else:
                message = f"an instance is given up, since it cannot be started again: {error}"
                warnings.warn(message, InstanceWarning, stacklevel=1)

    def _keep(self) -> None:
        """Replace the process whenever it is lost, until there is no more to do.

        Raises:
            QuantkitError: it cannot be started or load the network: the first time, or again and again.
        """
        failures, has_more = 0, True
        while has_more:
            try:
                if (instance := self._start()) is None:
                    return
                quantizer = instance.wait()
                failures = 0
                if not self._loaded.done():
                    self._loaded.set_result(quantizer)
                has_more = self._serve(instance)
            except QuantkitError:
                failures += 1
                if not self._loaded.done() or failures > _RESTARTS:
                    raise
                time.sleep(_PAUSE)
            finally:
                self._end()

    def _start(self) -> Optional[Instance]:
        """A new process; None if this is closed."""
        with self._lock:
            self._instance = None if self._closed else Instance(self._launch)
            return self._instance

    def _end(self) -> None:
        with self._lock:
            instance, self._instance = self._instance, None
        if instance is not None:
            instance.close()

    def _serve(self, instance: Instance) -> bool:
        """Hand an instance batches until it is lost; False if there will be no more."""
        begun: deque[tuple[int, list[Piece]]] = deque()
        reason = "it ended while it was idle"
        try:
            while instance.lives() or begun:
                pieces = self._taken([piece for _, each in begun for piece in each], len(begun))
                if pieces is None:
                    return False
                if pieces:
                    slot = next(slot for slot in range(SLOTS) if all(slot != other for other, _ in begun))
                    if self._begin(instance, slot, pieces):
                        begun.append((slot, pieces))
                elif begun:
                    self._finish(instance, *begun[0])
                    begun.popleft()
        except Exception as error:  # what was begun is not lost, whatever it is
            self._queue.put_back(chain.from_iterable(pieces for _, pieces in begun), error)
            if not isinstance(error, InstanceError):
                raise
            reason = str(error)
        if not self._closed:
            self.lost += 1
            _LOG.warning("an instance is replaced: %s", reason)
        return True

    def _taken(self, begun: Sequence[Piece], batches: int) -> Optional[list[Piece]]:
        """What to begin with now, if anything; None when there will be no more."""
        if not begun:
            return self._queue.take(self._launch.batch, self._window, _LOOK_EVERY, self._launch.most)
        if batches == SLOTS or any(piece.lost for piece in begun):
            return []
        return self._queue.take_ahead(self._launch.batch, self._launch.most)

    def _begin(self, instance: Instance, slot: int, pieces: list[Piece]) -> bool:
        """Hand an instance a batch; whether that could be done."""
        place = 0
        try:
            for piece in pieces:
                instance.put(slot, place, piece.data)
                place += piece.size
            instance.begin(slot, place)
        except InstanceError:
            self._queue.put_back(pieces)
            raise
        except Exception as error:  # whoever waits must not wait for ever, whatever it is
            self._queue.put_back(pieces, error)
            return False
        return True

    def _finish(self, instance: Instance, slot: int, pieces: list[Piece]) -> None:
        """Answer the pieces of a slot when they are computed."""
        error = instance.end()
        if error is not None:
            self._queue.put_back(pieces, error)
            return
        place = 0
        for piece in pieces:
            computed = [output[place : place + piece.size] for output in instance.slots.outputs[slot]]
            piece.request.put(piece.start, computed)
            place += piece.size
