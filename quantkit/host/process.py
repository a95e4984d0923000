"""The process that an object belongs to: engines' threads and locks do not survive a fork."""

from __future__ import annotations

import os

from quantkit.errors import ForkError

_REMEDY = (
    "load it in the process that uses it, and start that process with spawn "
    '(multiprocessing.get_context("spawn")), or fork it before anything is loaded'
)


class OwnProcess:
    """The process in which this object was made."""

    def __init__(self) -> None:
        self._number = os.getpid()

    def check(self, what: str) -> None:
        """Check that this is still the process; call it before taking a lock, which a fork may have left held.

        Raises:
            ForkError: this is a child that was forked later, in which ``what`` would wait for ever for its parent's
                threads.
        """
        if os.getpid() != self._number:
            raise ForkError(f"{what} was loaded in process {self._number}, of which this one is a fork; {_REMEDY}")
