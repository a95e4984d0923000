"""Hosts in namespaces of this machine: each has a network, a name, processes and mounts of its own.

A host is a shell that reads its commands from this process. It ends with this process at the latest, and with it all
that runs there, its part of the network and its mounts.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from quantkit.cluster.connect import connected
from tests.processes import environment

if TYPE_CHECKING:
    from distributed import Client

_OWN = ("--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000

WORKERS = ("left", "right")

SILENT = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "11s", "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "11s"}
"""When Dask takes a host for lost: after 30 seconds, and never sooner than these."""


class Host:
    """A host that reaches nobody yet.

    Attributes:
        name: its hostname.
        address: that others reach it by; see ``network``.
        log: what programs in the background have said.
    """

    def __init__(self, name: str, address: str, folder: Path, **settings: str) -> None:
        """Start it in a folder; ``settings`` are environment variables of what runs there.

        Raises:
            OSError: this process may not have it, or programs are missing.
        """
        self.name, self.address, self.log = name, address, folder / f"{name}.log"
        self._shell = subprocess.Popen(
            ["unshare", *_OWN, "sh"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(**settings),
            cwd=folder,
            text=True,
        )
        self.run("hostname", name)
        self.run("ip", "link", "set", "dev", "lo", "up")

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *error: object) -> None:
        """End all that runs there."""
        assert self._shell.stdin is not None and self._shell.stdout is not None
        with suppress(BrokenPipeError):
            self._shell.stdin.close()
        self._shell.wait(60)
        self._shell.stdout.close()

    def run(self, *command: str) -> None:
        """Run a command to its end.

        Raises:
            OSError: it failed, or the host is gone.
        """
        self._tell(f"{shlex.join(command)} </dev/null; printf '\\n%s\\n' \"status $?\"")
        assert self._shell.stdout is not None
        told: list[str] = []
        for line in self._shell.stdout:
            if line == "status 0\n":
                return
            if line.startswith("status "):
                break
            told.append(line)
        raise OSError(f"{shlex.join(command)}: {''.join(told).strip()}")

    def start(self, *command: str) -> None:
        """Run a command in the background."""
        self._tell(f"{shlex.join(command)} </dev/null >>{shlex.quote(str(self.log))} 2>&1 &")

    def cable(self, other: Host) -> None:
        """Lay a cable to another host: ``eth0`` there is a link with the other's name here."""
        cable = ["ip", "link", "add", "name", other.name, "type", "veth", "peer", "name", "eth0", "netns"]
        # Where both are seen; the process that has made a namespace is in it, but in no host.
        subprocess.run(
            ["nsenter", f"--net={self._network}", *cable, str(other._shell.pid)], check=True, capture_output=True
        )

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Let this thread, and those that it starts, reach what this host reaches."""
        with open("/proc/thread-self/ns/net") as own, open(self._network) as theirs:
            _enter(theirs.fileno())
            try:
                yield
            finally:
                _enter(own.fileno())

    @property
    def _network(self) -> str:
        return f"/proc/{self._shell.pid}/ns/net"

    def _tell(self, line: str) -> None:
        assert self._shell.stdin is not None
        # What ended the host is read from it.
        with suppress(BrokenPipeError):
            self._shell.stdin.write(f"{line}\n")
            self._shell.stdin.flush()


def _enter(network: int) -> None:
    if _LIBC.setns(network, _CLONE_NEWNET):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


@contextmanager
def network(names: Sequence[str], folder: Path, **settings: str) -> Iterator[list[Host]]:
    """Hosts that reach each other through a switch at the first; ``cut`` takes one from the network.

    Raises:
        OSError: this process may not have them, or programs are missing.
    """
    with ExitStack() as stack:
        hosts = [
            stack.enter_context(Host(name, f"10.0.0.{number}", folder, **settings))
            for number, name in enumerate(names, 1)
        ]
        first, *others = hosts
        first.run("ip", "link", "add", "name", "eth0", "type", "bridge")
        for host in others:
            first.cable(host)
            first.run("ip", "link", "set", "dev", host.name, "master", "eth0", "up")
        for host in hosts:
            host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
            host.run("ip", "link", "set", "dev", "eth0", "up")
        yield hosts


def cut(switch: Host, host: Host) -> None:
    """Take a host from the network: whatever goes there or comes from there is lost without a word."""
    switch.run("ip", "link", "set", "dev", host.name, "down")


def dask(host: Host, *command: str) -> None:
    """Start a node on a host."""
    host.start(sys.executable, "-m", "dask", *command, "--host", host.address, "--no-dashboard")


def address(hosts: list[Host]) -> str:
    return f"tcp://{hosts[0].address}:8786"


@contextmanager
def client_of(hosts: list[Host]) -> Iterator[Client]:
    """A client on the scheduler's host, when both workers are there."""
    with hosts[0].inside(), connected(address(hosts)) as client:
        client.wait_for_workers(2, timeout=60)
        yield client
