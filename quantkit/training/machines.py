"""Machines that train a network together, and where their instances find each other."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from typing import NamedTuple

from quantkit.errors import UserError
from quantkit.extras import using
from quantkit.kinds import whole_number

_LOCALHOST = "127.0.0.1"
_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9._-]+):(?P<port>\d{1,5})")


class MeetingPoint(NamedTuple):
    """Where the processes of a training find each other.

    Attributes:
        host: that of MXNet's scheduler, or of Horovod's rendezvous.
        port: its port.
        own: this machine's address, by which the others reach it.
    """

    host: str
    port: int
    own: str


@dataclass(frozen=True)
class Machines:
    """Machines that train together; the same command runs on each, with another ``own``.

    Attributes:
        number: how many there are.
        own: the number of this one, from 0.
        scheduler: ``HOST:PORT``, where machine 0 listens for the others.

    Raises:
        UserError: a value is impossible.
    """

    number: int
    own: int
    scheduler: str

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        object.__setattr__(self, "number", whole_number("machines", self.number, 1, 2))
        object.__setattr__(self, "own", whole_number("machine", self.own, 0, 0))
        if self.own >= self.number:
            raise UserError(
                f"machine is {self.own} of {self.number} machines; give a number from 0 to {self.number - 1}"
            )
        match = _ADDRESS.fullmatch(str(self.scheduler))
        if match is None or not 0 < int(match["port"]) < 1 << 16:
            raise UserError(f"scheduler is {self.scheduler!r}; give the address of machine 0, such as 10.0.0.1:9000")

    def meeting_point(self) -> MeetingPoint:
        """Where the machines meet.

        Raises:
            UserError: there is no way to machine 0.
        """
        host, _, port = self.scheduler.rpartition(":")
        try:
            # MXNet's protocol knows IPv4 alone.
            address = socket.getaddrinfo(host, int(port), socket.AF_INET, socket.SOCK_DGRAM)[0][4]
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                # Sends nothing; the system chooses the address from which it would.
                probe.connect(address)
                own = str(probe.getsockname()[0])
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UserError(
                f"cannot reach {self.scheduler}: {reason}; give the address of machine 0 (--scheduler)"
            ) from error
        point = MeetingPoint(str(address[0]), int(port), own)
        if self.own == 0:
            if point.host.startswith("127.") and host != "localhost" and not host.startswith("127."):
                raise UserError(
                    f"{host} is {point.host} here, which no other machine reaches; give machine 0's address in the "
                    "network instead of its name (--scheduler)"
                )
            _check_free(point)
        return point


def _check_free(point: MeetingPoint) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((point.host, point.port))
        except OSError as error:
            raise UserError(
                f"machine 0 cannot listen at {point.host}:{point.port}: {error.strerror or error}; give an address of "
                "this machine and a port that is free (--scheduler)"
            ) from error


def interface_of(address: str) -> str:
    """The network interface of this machine that has an IPv4 address.

    Raises:
        UserError: none has.
    """
    with using("horovod", "trainings through Horovod"):
        import psutil

    for name, addresses in psutil.net_if_addrs().items():
        if any(each.family == socket.AF_INET and each.address == address for each in addresses):
            return str(name)
    raise UserError(f"no network interface of this machine has the address {address}; give another --scheduler")


def on_this_machine() -> MeetingPoint:
    """Where instances of this machine alone meet: a free port that nobody else reaches."""
    with socket.socket() as probe:
        probe.bind((_LOCALHOST, 0))
        return MeetingPoint(_LOCALHOST, int(probe.getsockname()[1]), _LOCALHOST)
