"""What a worker of ``local:N`` does first, by Dask's ``preload``: it leaves Ctrl-C to the client, which ends it."""

from __future__ import annotations

import signal


def dask_setup(worker: object) -> None:
    """Ignore the signal that a terminal sends to all processes of a command."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
