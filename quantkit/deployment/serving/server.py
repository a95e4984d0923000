"""The server: requests answered in a thread."""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from ssl import SSLContext
from typing import Any, Optional

import uvicorn

from quantkit.deployment.serving.application import application
from quantkit.deployment.serving.connections import prompt_protocol
from quantkit.deployment.serving.limits import Limits
from quantkit.deployment.serving.listener import BACKLOG, Listener
from quantkit.deployment.serving.models import Models
from quantkit.host.threads import worker_threads

_LOG = logging.getLogger(__name__)

# Seconds that requests in flight have when the server ends.
_GRACE = 10

# Connections that are accepted one after the other, before anything else is done.
_ACCEPTED = 64

# Descriptors for all but connections.
_OTHER_DESCRIPTORS = 256


@contextmanager
def serving(models: Models, listener: Listener, limits: Limits, token: Optional[str] = None) -> Iterator[Future[None]]:
    """Answer requests within this, in a thread; those in flight at its end are answered first.

    Args:
        models: the bundles.
        listener: where they come from.
        limits: of requests.
        token: what requests must bring; None: nothing.

    Returns:
        What is done when the server has ended, which it does by itself only if something is wrong.
    """
    limits, tls = _within_descriptors(limits), listener.tls
    # So few at a time bound the memory that reading JSON and decoding images take.
    threads = ThreadPoolExecutor(max(2, worker_threads()), "quantkit server's")
    config = uvicorn.Config(
        application(models, limits, threads, token),
        http=prompt_protocol(limits),
        ws="none",
        lifespan="off",
        # Bad requests are told to whoever sends them.
        log_level=logging.ERROR,
        access_log=False,
        server_header=False,
        backlog=_ACCEPTED,
        timeout_graceful_shutdown=_GRACE,
        ssl_context_factory=None if tls is None else lambda *_: tls,
    )
    server = uvicorn.Server(config)

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: _Loop(limits)) as runner:
            runner.run(server.serve([listener.socket]))

    # In the main thread it would handle signals itself.
    with threads, ThreadPoolExecutor(1, "quantkit server") as executor:
        ended = executor.submit(run)
        try:
            yield ended
        finally:
            server.should_exit = True


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that bounds the time of handshakes, for which uvicorn leaves a minute, and what it accepts."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._handshake, self._shutdown = limits.head_seconds, limits.seconds

    async def create_server(self, *given: Any, ssl: Optional[SSLContext] = None, **named: Any) -> asyncio.Server:  # type: ignore[override]
        """See ``asyncio``."""
        if ssl is not None:
            named |= {"ssl_handshake_timeout": self._handshake, "ssl_shutdown_timeout": self._shutdown}
        server = await super().create_server(*given, ssl=ssl, **named)
        # asyncio accepts as many at a time as it lets wait.
        named["sock"].listen(BACKLOG)
        return server


def _within_descriptors(limits: Limits) -> Limits:
    """The limits, with no more connections than this process may have descriptors for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # As many again for handshakes of TLS.
    wanted = 2 * limits.connections + _OTHER_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft != resource.RLIM_INFINITY and soft < wanted:
        connections = max(1, (soft - _OTHER_DESCRIPTORS) // 2)
        _LOG.warning("at most %d connections at a time, since this process may open %d files", connections, soft)
        return replace(limits, connections=connections)
    return limits
