"""What a ``ChildProcess`` sends to its parent, for which it needs no library."""

from __future__ import annotations

import json
from multiprocessing.connection import Connection
from typing import Any

from quantkit.errors import QuantkitError

LOADING_PATIENCE = 600.0
"""Seconds that a child may take to load a network, before it counts as hanging."""


def send(channel: Connection, **message: Any) -> None:
    """Send a message of JSON values."""
    channel.send_bytes(json.dumps(message).encode())


def send_error(channel: Connection, error: Exception) -> None:
    """Send an error, which the parent raises; one that is none of quantkit's becomes an ``EngineError``."""
    if isinstance(error, QuantkitError):
        send(channel, error=[type(error).__name__, str(error)])
    else:
        send(channel, error=["EngineError", f"{type(error).__name__}: {error}"])
