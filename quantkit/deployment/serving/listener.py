"""Where a server listens: a socket, with or without TLS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from quantkit.errors import UserError

BACKLOG = 2048
"""So many connections may wait for the system to be accepted."""


@dataclass(frozen=True)
class Address:
    """Where a server listens; ``port`` 0: any free one. With ``certificate`` and ``key``, PEM files, by TLS."""

    host: str = "127.0.0.1"
    port: int = 8000
    certificate: Optional[Path] = None
    key: Optional[Path] = None

    def __post_init__(self) -> None:
        """Check that they belong together.

        Raises:
            UserError: there is a key without a certificate, or the other way round.
        """
        if (self.certificate is None) != (self.key is None):
            raise UserError("TLS needs both a certificate and its key; give both, or neither")


@dataclass(frozen=True)
class Listener:
    """A socket that listens, and ``tls`` if its connections are encrypted."""

    socket: socket.socket
    tls: Optional[ssl.SSLContext]

    @property
    def url(self) -> str:
        """Its address."""
        host, port, *_ = self.socket.getsockname()
        return f"{'http' if self.tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"


@contextmanager
def listening(address: Address) -> Iterator[Listener]:
    """Listen within this; connections wait until somebody accepts them.

    Raises:
        UserError: it cannot be done there, or certificate and key cannot be read.
    """
    context = _tls(address)
    with _bound(address) as bound:
        yield Listener(bound, context)


def _tls(address: Address) -> Optional[ssl.SSLContext]:
    if address.certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without a password, that of an encrypted key would be asked for on the terminal.
        context.load_cert_chain(address.certificate, address.key, password="")
    except (OSError, ValueError) as error:
        raise UserError(
            f"the certificate {address.certificate} and the key {address.key} cannot be used: {error}; give PEM files "
            "that belong together, the key without a password"
        ) from error
    return context


def _bound(address: Address) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        bound = socket.create_server((address.host, address.port), family=family, backlog=BACKLOG)
        # Connections inherit it; asyncio sets it only where sockets were made with the protocol's number. Answers would
        # wait 40 ms for the client's delayed acknowledgement.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return bound
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot listen on {address.host} port {address.port}: {reason}; choose others") from error
