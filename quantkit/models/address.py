"""Which addresses and redirections are followed to fetch weights."""

from __future__ import annotations

import ipaddress
import re
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from quantkit.errors import WeightsUnavailable


@dataclass(frozen=True)
class Address:
    """The address of a file.

    ``full`` is for the request alone: it may hold a user name and a password. ``str(address)``, for messages and
    records, does not.
    """

    full: str = field(repr=False)

    def __str__(self) -> str:
        return re.sub(r"^([^/?#]*//)[^/?#]*@", r"\1", self.full)


def check_address(here: Address, url: Address, verified: bool) -> None:
    """Reject an address whose responses could be altered in transit, or that reaches into the user's own network.

    Args:
        here: the address.
        url: the one that the user or the card gave, which redirected to it.
        verified: whether a hash of the file is known.

    Raises:
        WeightsUnavailable: the address must not be followed.
    """
    try:
        parts, origin = urlsplit(here.full), urlsplit(url.full)
        host, first = parts.hostname, origin.hostname
    except ValueError as error:
        raise WeightsUnavailable(f"{url} leads to {str(here)!r}, which is not an address") from error
    if parts.scheme not in ("http", "https") or not host:
        raise WeightsUnavailable(f"{url} leads to {str(here)!r}; only https:// and http:// are followed")
    if here != url and _inward(host) and not _inward(first or ""):
        raise WeightsUnavailable(f"{url} leads to {str(here)!r}, into this machine's own network, and is not followed")
    if parts.scheme == "http" and origin.scheme == "https":
        raise WeightsUnavailable(f"{url} leads to {str(here)!r}, which is not encrypted, and is not followed")
    if parts.scheme == "http" and not verified and not _loopback(host):
        raise WeightsUnavailable(
            f"{str(here)!r} is not encrypted and no hash of the file is known, so anybody could alter it on the way; "
            "use https://, or give the file's sha256 in the card"
        )


def _inward(host: str) -> bool:
    """Whether a host is a local name or an IP address outside the public Internet."""
    host = host.rstrip(".")
    with suppress(OSError):
        # Resolvers also accept 127.1, 0x7f.1 and 2130706433 as addresses.
        host = socket.inet_ntoa(socket.inet_aton(host))
    with suppress(ValueError):
        return not ipaddress.ip_address(host).is_global
    return host == "localhost" or host.endswith(".localhost")


def _loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
