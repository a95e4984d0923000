"""Events of watched deployments: lines of JSON at the end of a file."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, Optional, Union

from quantkit.drift.reference import SIGNAL
from quantkit.errors import UserError
from quantkit.files.schema import Bounded
from quantkit.files.text import MEBIBYTE, check_name

LARGEST = 16 * MEBIBYTE
"""The bytes of a file, about; then it is renamed to NAME.1, in place of an older one, and another one is begun."""

_LOG = logging.getLogger(__name__)

_NOTHING = 1e-9

# The fields of events, which are read with distrust.
_Time = Annotated[str, Bounded(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")]
_Name = Annotated[str, Bounded(min_length=1, max_length=1000)]
_Signal = Annotated[str, Bounded(pattern=f"^{SIGNAL}$")]
_Count = Annotated[int, Bounded(ge=0, le=1 << 53)]
_Number = Annotated[float, Bounded(allow_inf_nan=False)]
_Distance = Annotated[float, Bounded(ge=0, le=1)]


@dataclass(frozen=True)
class Started:
    """A deployment has begun: its network, its engine, and what its signals are compared with.

    Attributes:
        time: of the event, in UTC, as ISO 8601 has it; of the others as well.
        model: the network's name.
        bundle: its bundle's hash.
        engine: the engine's name.
        samples: how many samples of calibration there are.
        least: the smallest distance that can be told.
        usual: the mean and the standard deviation of each signal in calibration.
    """

    time: _Time
    model: _Name
    bundle: _Name
    engine: _Name
    samples: _Count
    least: _Distance
    usual: Mapping[_Signal, tuple[_Number, _Number]]
    event: Literal["started"] = "started"
    version: Literal[1] = 1


@dataclass(frozen=True)
class Changed:
    """A signal has begun to drift (``drift``), or is as usual again (``usual``); see ``drift_watch.Look``."""

    time: _Time
    event: Literal["drift", "usual"]
    signal: _Signal
    samples: _Count
    mean: _Number
    distance: _Distance


@dataclass(frozen=True)
class Figures:
    """What was seen until now.

    Attributes:
        time: of the event.
        seen: the samples that were answered.
        watched: those whose signals were looked at.
        signals: the mean of each signal at its last look, and the distance from the usual distribution.
        drifting: the signals that drift.
        compared: the samples that FP32 has answered, too.
        agreeing: those of them with the same best class.
        answered: the samples that FP32 has answered in place of INT8.
    """

    time: _Time
    seen: _Count
    watched: _Count
    signals: Mapping[_Signal, tuple[_Number, _Distance]] = field(default_factory=dict)
    drifting: tuple[_Signal, ...] = ()
    compared: _Count = 0
    agreeing: _Count = 0
    answered: _Count = 0
    event: Literal["figures"] = "figures"


@dataclass(frozen=True)
class Ended:
    """A deployment has ended in good order."""

    time: _Time
    event: Literal["ended"] = "ended"


Event = Union[Started, Changed, Figures, Ended]


def now() -> str:
    """The time for an event."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class EventLog:
    """The end of a file of events.

    Where it cannot be written, such as on a full disk, events are lost, which is told once in the log, and the
    deployment goes on.
    """

    def __init__(self, path: Union[str, os.PathLike[str]], first: Event) -> None:
        """Open the file, which may hold the events of earlier deployments, and write the first event.

        Raises:
            UserError: it cannot be written.
        """
        self._path, self._first = Path(path), first
        self._lost = self._torn = False
        try:
            check_name(self._path)
            self._file = self._opened()
            self._append(first)
        except OSError as error:
            raise UserError(f"cannot write events to {path}: {error.strerror or error}; choose another file") from error

    def write(self, event: Event) -> None:
        """Append an event."""
        try:
            if os.fstat(self._file).st_size > LARGEST:
                self._begin_another()
            self._append(event)
        except OSError as error:
            if not self._lost:
                _LOG.error("events are lost, since %s cannot be written: %s", self._path, error.strerror or error)
            self._lost = True
        else:
            self._lost = False

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _opened(self) -> int:
        # Neither waits for the reader of a pipe, nor is read by a process that this one starts.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
        return os.open(self._path, flags, 0o644)

    def _begin_another(self) -> None:
        os.replace(self._path, f"{self._path}.1")
        os.close(self._file)
        self._file = self._opened()
        self._append(self._first)

    def _append(self, event: Event) -> None:
        line = json.dumps(asdict(event), allow_nan=False).encode() + b"\n"
        # A line of which a full disk took a part is ended first.
        content = b"\n" + line if self._torn else line
        written = os.write(self._file, content)
        self._torn = written < len(content)
        if self._torn:
            raise OSError("only a part of an event was written")


def rounded(value: float) -> float:
    """A number with as many digits as events have; what is left of rounding becomes 0."""
    return float(f"{value:.6g}") if abs(value) > _NOTHING else 0.0


def line_of(event: Event) -> Optional[str]:
    """What the log says of an event; None where it says nothing."""
    if not isinstance(event, Changed):
        return None
    what = "drifts" if event.event == "drift" else "is as usual again"
    return f"{event.signal} {what}: mean {event.mean:.4g}, distance {event.distance:.2f}, {event.samples} samples"
