"""MXNet's profiler in this process, around a part of the user's program."""

from __future__ import annotations

import atexit
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.errors import EngineError
from quantkit.files.text import MEBIBYTE, read_text

OPERATOR, CALL = "operator", "MXNET_C_API"
"""What an event is: an operator that the engine ran, or a call of MXNet's interface."""

_PHASES = {OPERATOR: ("B", "E"), CALL: ("b", "e")}
_EVENT = re.compile(
    rf'"name": "(?P<name>[^"]*)",\s*"cat": "(?P<category>{OPERATOR}|{CALL})",\s*"ph": "(?P<phase>\w)",\s*'
    r'"ts": (?P<at>\d+),[^}]*"tid": (?P<thread>\d+)'
)
_LARGEST_TRACE = 1024 * MEBIBYTE

_busy = Lock()


@dataclass(frozen=True)
class Span:
    """One event: an operator or a call, its name, and its start and end in ms from the start of the recording."""

    category: str
    name: str
    begun: float
    ended: float


@dataclass
class OwnRecording:
    """The events of a part of a program; empty until it has ended."""

    milliseconds: float = 0.0
    spans: tuple[Span, ...] = field(default_factory=tuple)


@contextmanager
def recorded() -> Iterator[OwnRecording]:
    """Record what MXNet does in this process; it waits for MXNet to finish at the beginning and at the end.

    Raises:
        EngineError: another recording runs, or this build of MXNet has no profiler.
    """
    if not _busy.acquire(blocking=False):
        raise EngineError("MXNet's profiler records one part of a program at a time; end the other first")
    try:
        mxnet, trace = load_mxnet(), _configured()
        recording = OwnRecording()
        mxnet.nd.waitall()
        mxnet.profiler.set_state("run")
        begun = time.time_ns()
        try:
            yield recording
        finally:
            mxnet.nd.waitall()
            ended = time.time_ns()
            mxnet.profiler.set_state("stop")
            mxnet.profiler.dump(finished=False)
        recording.milliseconds = (ended - begun) / 1e6
        recording.spans = tuple(spans_of(_read(trace), begun // 1000, ended // 1000))
    finally:
        _busy.release()


@cache
def _configured() -> Path:
    """The file of all traces of this process: MXNet can be told only once."""
    descriptor, name = tempfile.mkstemp(prefix="quantkit-trace-", suffix=".json")
    os.close(descriptor)
    atexit.register(Path(name).unlink, missing_ok=True)
    wanted = dict.fromkeys(("profile_symbolic", "profile_imperative", "profile_api"), True)
    load_mxnet().profiler.set_config(filename=name, profile_memory=False, aggregate_stats=False, **wanted)
    return Path(name)


def _read(trace: Path) -> str:
    try:
        return read_text(trace, _LARGEST_TRACE)
    except (OSError, ValueError) as error:
        raise EngineError(f"MXNet's profiler wrote no readable trace ({error}); is there space left?") from error


def spans_of(trace: str, begun: int, ended: int) -> Iterator[Span]:
    """The operators and calls of a trace that MXNet wrote, within a window in microseconds, by their start.

    From the third writing on, the trace is JSON but for a comma, so its events are read one by one.
    """
    open_: dict[tuple[str, ...], list[int]] = {}
    spans = []
    for event in _EVENT.finditer(trace):
        category, name, at = event["category"], event["name"], int(event["at"])
        first, last = _PHASES[category]
        starts = open_.setdefault((category, name, event["thread"]), [])
        if event["phase"] == first:
            starts.append(at)
        elif event["phase"] == last and starts:
            start = starts.pop()
            if begun <= start and at <= ended:
                spans.append(Span(category, name, (start - begun) / 1e3, (at - begun) / 1e3))
    yield from sorted(spans, key=lambda span: span.begun)
