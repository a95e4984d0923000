"""Which addresses a program and all that it starts try to reach, told by the kernel itself.

A filter of system calls (seccomp, with notifications to a listener, since Linux 5.5) stops ``connect``, ``sendto``,
``sendmsg`` and ``sendmmsg`` of the whole process tree. They are refused and noted, but for sockets of this machine's
own processes (AF_UNIX) and of its kernel (AF_NETLINK). Nothing escapes: neither native threads nor forked processes.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import struct
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

_LIBC = ctypes.CDLL(None, use_errno=True)

_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER = 317, 1, 8
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE = 1

# Classic BPF (linux/filter.h, linux/seccomp.h).
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_NUMBER, _ARCHITECTURE, _X86_64 = 0, 4, 0xC000003E

_CONNECT, _SENDTO, _SENDMSG, _SENDMMSG, _IO_URING_SETUP = 42, 44, 46, 307, 425
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16


@dataclass(frozen=True)
class Watched:
    """A program that has ended: its exit code, what it wrote, and whom it and its children tried to reach."""

    returncode: int
    output: str
    reached: tuple[str, ...]


def watched(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> Watched:
    """Run a program in a folder, without network, until it and all that it started have ended.

    Raises:
        OSError: the kernel has no such filters, or does not let this process set one.
    """
    started: list[Any] = []

    def start() -> None:
        try:
            # The filter holds for this thread and what it starts.
            started.append(_listener())
            with (folder / "output.txt").open("wb") as output:
                process = subprocess.Popen(
                    command, cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output, stderr=output
                )
            started.append(process)
        except OSError as error:
            started.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    if isinstance(started[-1], OSError):
        raise started[-1]
    listener, process = started
    try:
        reached = tuple(_noted(listener))
    finally:
        os.close(listener)
        process.kill()
    return Watched(process.wait(), (folder / "output.txt").read_text(errors="replace"), reached)


def _listener() -> int:
    """Filter this thread's system calls; the descriptor that tells of those in question."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))

    def instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
        return struct.pack("HBBI", code, if_true, if_false, value)

    calls = (_CONNECT, _SENDTO, _SENDMSG, _SENDMMSG, _IO_URING_SETUP)
    instructions = [
        instruction(_LOAD, _ARCHITECTURE),
        instruction(_IF_EQUAL, _X86_64, 1, 0),
        instruction(_RETURN, _NOTIFY),
        instruction(_LOAD, _NUMBER),
        *(instruction(_IF_EQUAL, call, len(calls) - number, 0) for number, call in enumerate(calls)),
        instruction(_RETURN, _ALLOW),
        instruction(_RETURN, _NOTIFY),
    ]
    content = ctypes.create_string_buffer(b"".join(instructions))
    program = Program(len(instructions), ctypes.addressof(content))
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    descriptor = _LIBC.syscall(_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(program))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return int(descriptor)


def _noted(listener: int) -> list[str]:
    """Answer every call in question until nobody is left to make one; the addresses that were refused."""
    reached = []
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while True:
        ((_, events),) = poll.poll()
        if not events & select.POLLIN:
            return reached
        notification = bytearray(80)
        try:
            fcntl.ioctl(listener, _RECEIVE, notification)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                continue  # who called is gone
            raise
        number, pid, _, call, architecture, _, *arguments = struct.unpack("QIIiIQ6Q", notification)
        address = _address(pid, call, arguments) if architecture == _X86_64 else "by another architecture's call"
        if address is not None:
            reached.append(address)
        answer = struct.pack("QqiI", number, 0, *((0, _CONTINUE) if address is None else (-errno.ENETUNREACH, 0)))
        try:
            fcntl.ioctl(listener, _SEND, bytearray(answer))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise


def _address(pid: int, call: int, arguments: Sequence[int]) -> Optional[str]:
    """The address that a call is about; None if it is on this machine, or was given to an earlier call."""
    if call == _IO_URING_SETUP:
        return "by io_uring"
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:

            def read(place: int, size: int) -> bytes:
                memory.seek(place)
                return memory.read(size)

            if call == _CONNECT:
                place, size = arguments[1], arguments[2]
            elif call == _SENDTO:
                place, size = arguments[4], arguments[5]
            else:
                place, size = struct.unpack("QI", read(arguments[1], 12))
            content = read(place, min(size, 128)) if place else b""
    except OSError as error:
        return f"unknown ({error})"
    if not content:
        return None
    (family,) = struct.unpack_from("H", content)
    if family in (_AF_UNIX, _AF_NETLINK):
        return None
    if family == _AF_INET:
        return f"{'.'.join(map(str, content[4:8]))}:{int.from_bytes(content[2:4], 'big')}"
    if family == _AF_INET6:
        return f"[{content[8:24].hex(':', 2)}]:{int.from_bytes(content[2:4], 'big')}"
    return f"address family {family}"
