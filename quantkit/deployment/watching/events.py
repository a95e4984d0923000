"""Events of watched deployments, as lines of JSON in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Literal, Union

from quantkit.drift.reference import MOST_SIGNALS, SIGNAL
from quantkit.files.schema import Bounded

# Files of events are read with distrust.
_Time = Annotated[str, Bounded(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")]
_Name = Annotated[str, Bounded(min_length=1, max_length=1000)]
_Signal = Annotated[str, Bounded(pattern=f"^{SIGNAL}$")]
_Count = Annotated[int, Bounded(ge=0, le=1 << 53)]
_Number = Annotated[float, Bounded(allow_inf_nan=False)]
_Distance = Annotated[float, Bounded(ge=0, le=1)]
_Few = Bounded(max_length=MOST_SIGNALS)

_NOTHING = 1e-9


@dataclass(frozen=True)
class Started:
    """A deployment has begun: its network, its engine, and what its signals are compared with.

    Attributes:
        time: of the event, in UTC, as ISO 8601 has it; of the others as well.
        model: the network's name.
        bundle: its bundle's hash.
        engine: the engine's name.
        samples: how many samples of calibration there are at most.
        calibration: the mean and the standard deviation of each signal in calibration, and the smallest distance from
            it that is told from chance; 1 if none is.
    """

    time: _Time
    model: _Name
    bundle: _Name
    engine: _Name
    samples: _Count
    calibration: Annotated[Mapping[_Signal, tuple[_Number, _Number, _Distance]], _Few]
    event: Literal["started"] = "started"
    version: Literal[1] = 1


@dataclass(frozen=True)
class Changed:
    """A signal has begun to drift (``drift``), or no longer does (``recovered``); see ``drift_watch.SignalStatus``."""

    time: _Time
    event: Literal["drift", "recovered"]
    signal: _Signal
    samples: _Count
    mean: _Number
    distance: _Distance

    def __str__(self) -> str:
        """What a log says."""
        what = "drifts" if self.event == "drift" else "no longer drifts"
        return f"{self.signal} {what}: mean {self.mean:.4g}, distance {self.distance:.2f}, {self.samples} samples"


@dataclass(frozen=True)
class Figures:
    """What was seen until now.

    Attributes:
        time: of the event.
        seen: the samples that were answered.
        watched: those whose signals were computed.
        signals: the mean of each signal in its last test, and the distance from its distribution in calibration.
        drifting: the signals that drift, each with the time since when.
        compared: the samples that FP32 has answered, too.
        agreeing: those of them with the same best class.
        answered: the samples that FP32 has answered in place of INT8.
        failed: the samples that could not be compared.
    """

    time: _Time
    seen: _Count
    watched: _Count
    signals: Annotated[Mapping[_Signal, tuple[_Number, _Distance]], _Few] = field(default_factory=dict)
    drifting: Annotated[Mapping[_Signal, _Time], _Few] = field(default_factory=dict)
    compared: _Count = 0
    agreeing: _Count = 0
    answered: _Count = 0
    failed: _Count = 0
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


def rounded(value: float) -> float:
    """A number with as many digits as events have; what is left of rounding becomes 0."""
    return float(f"{value:.6g}") if abs(value) > _NOTHING else 0.0
