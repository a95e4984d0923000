"""Connections whose clients must say what they want, and take their answers, in time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Optional

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from quantkit.deployment.serving.limits import Limits

# Late bodies are answered with 504 first.
_OF_BODIES = 2

# Bytes of an answer that a client reads in ``head_seconds`` at least, or all that is left.
_LEAST_READ = 65536


class Waiting:
    """The connections whose request is not there yet, the one that has waited longest first."""

    def __init__(self, limits: Limits) -> None:
        """Begin with none."""
        self.limits = limits
        self._timers: OrderedDict[PromptProtocol, asyncio.TimerHandle] = OrderedDict()

    def add(self, connection: PromptProtocol, seconds: float) -> None:
        """Wait for a connection's request so long."""
        self.remove(connection)
        self._timers[connection] = connection.loop.call_later(seconds, connection.give_up)

    def remove(self, connection: PromptProtocol) -> None:
        """Its request is there, or it is gone."""
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def first(self) -> Optional[PromptProtocol]:
        """The one that has waited longest."""
        return next(iter(self._timers), None)


class PromptProtocol(H11Protocol):
    """uvicorn's connection, closed where a request does not come, or the client does not read its answer.

    Without this, a client that connects and sends nothing, sends its request byte by byte, or does not read holds a
    descriptor for ever.
    """

    waiting: Waiting
    _state: object = None
    _unread: Optional[asyncio.TimerHandle] = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request; of too many connections, one that waits makes room."""
        super().connection_made(transport)
        if len(self.connections) > self.waiting.limits.connections:
            (self.waiting.first() or self).give_up()
        self._look()

    def connection_lost(self, exc: Optional[Exception]) -> None:
        """Nobody is there any more."""
        self.waiting.remove(self)
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A part of a request."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait until it is read, then for the next request."""
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        """The client has not read what was sent so far."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """It has read most of it."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        if self.transport.get_write_buffer_size():
            self._watch()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Say that a request is none, unless it was answered already."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.give_up()

    def give_up(self) -> None:
        """Close it at once, whatever is left to send."""
        self.waiting.remove(self)
        self.transport.abort()

    def _look(self) -> None:
        """Note whether the client's request is still to come, and since when."""
        state = (self.conn.their_state, self.cycle)
        if state == self._state:
            return
        self._state = state
        limits = self.waiting.limits
        if self.transport.get_write_buffer_size():
            self.waiting.remove(self)
            self._watch()
        elif self.transport.is_closing() or state[0] not in (h11.IDLE, h11.SEND_BODY):
            self.waiting.remove(self)
        elif state[0] is h11.SEND_BODY:
            self.waiting.add(self, _OF_BODIES * limits.seconds)
        else:
            # What is left of an answer under TLS cannot be seen; it has more time.
            hidden = self.scheme == "https" and self.cycle is not None
            self.waiting.add(self, limits.seconds if hidden else limits.head_seconds)

    def _watch(self) -> None:
        """Give up where the client reads too slowly, until it has read all."""
        if self._unread is not None:
            return
        left = self.transport.get_write_buffer_size()

        def look() -> None:
            self._unread = None
            now = self.transport.get_write_buffer_size()
            if now and now > left - _LEAST_READ:
                self.give_up()
            elif now:
                self._watch()
            else:
                self._state = None
                self._look()

        self._unread = self.loop.call_later(self.waiting.limits.head_seconds, look)


def prompt_protocol(limits: Limits) -> type[PromptProtocol]:
    """The class of the connections of one server."""
    return type("Connection", (PromptProtocol,), {"waiting": Waiting(limits)})
