"""Calls of MXNet: one thread at a time, its errors as ours, its own fusion off."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.errors import EngineError

# MXNet binds and first runs networks with shared state of its own: threads must take turns, whatever they run.
_ENGINE = RLock()
_forks = 0


def forks() -> int:
    """How often this process was forked; ask within ``engine_calls``, which no fork interrupts.

    Forks of which Python does not tell, such as those of ``subprocess`` with ``user``, do not count.
    """
    return _forks


def _after_in_parent() -> None:
    global _forks
    _forks += 1
    _ENGINE.release()


def _renew_lock() -> None:
    """The thread that holds the lock does not come along into a forked process, where the engine itself starts anew."""
    global _ENGINE
    _ENGINE = RLock()


# A fork waits until no run is under way: in the child nobody would give back the locks that it holds inside the engine.
os.register_at_fork(before=lambda: _ENGINE.acquire(), after_in_parent=_after_in_parent, after_in_child=_renew_lock)


@contextmanager
def engine_calls(what: str) -> Iterator[None]:
    """Have the engine for this thread alone, and its errors as those of ``engine_errors``."""
    with _ENGINE, engine_errors(what):
        yield


def failures() -> tuple[type[Exception], ...]:
    """What MXNet raises: for a failure in C++ whose message begins with the name of an error of Python's, that one."""
    error: type[Exception] = load_mxnet().base.MXNetError
    return (error, AttributeError, IndexError, NotImplementedError, TypeError, ValueError, MemoryError)


@contextmanager
def engine_errors(what: str) -> Iterator[None]:
    """Turn MXNet's errors into an EngineError that says what it could not do, without its C++ stack."""
    mxnet = load_mxnet()
    try:
        yield
    except failures() as error:
        raise EngineError(f"MXNet {mxnet.__version__} cannot {what}: {reason(error)}") from error


def reason(error: Exception) -> str:
    """The line of MXNet's message that tells; newer releases put the C++ stack first, older ones last."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if "Error" in line or "Check failed" in line), "".join(lines[:1]))


@contextmanager
def stock_fusion_off() -> Iterator[None]:
    """Keep MXNet from fusing operators when it binds a network, whatever the user's environment says.

    Its fusion is on by default and changes the result of pre-activation ResNets. The backend
    ``default`` fuses nothing; ``NONE`` neither, but logs a line for each network.
    """
    wanted = {"MXNET_SUBGRAPH_BACKEND": "default", "MXNET_SUBGRAPH_VERBOSE": "0"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
