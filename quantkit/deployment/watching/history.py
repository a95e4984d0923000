"""Reading files of events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

from quantkit.deployment.watching.event_log import LARGEST, LONGEST_LINE
from quantkit.deployment.watching.events import Changed, Ended, Event, Figures, Started
from quantkit.deployment.watching.shadow import ShadowStatus
from quantkit.errors import DataError
from quantkit.files.text import read_bytes

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_LARGEST_FILE = 2 * LARGEST

# Damage is rare: a full disk, a power failure.
_MOST_DAMAGED = 1000


@dataclass(frozen=True)
class History:
    """What the events of one run of a deployment tell.

    Attributes:
        started: its first event.
        changes: signals that began to drift, or no longer did, in order.
        figures: in order.
        drifting: the signals that drift at last, each with the time since when.
        ended: whether it ended in good order.
    """

    started: Started
    changes: tuple[Changed, ...] = ()
    figures: tuple[Figures, ...] = ()
    drifting: Mapping[str, str] = field(default_factory=dict)
    ended: bool = False

    @property
    def last(self) -> Figures:
        """The last figures."""
        return self.figures[-1] if self.figures else Figures(self.started.time, 0, 0)

    @property
    def shadow(self) -> ShadowStatus:
        """What was run in FP32."""
        return ShadowStatus(self.last.compared, self.last.agreeing, self.last.answered, self.last.failed)


@dataclass(frozen=True)
class Events:
    """What a file of events holds: the runs of a deployment, and lines that are damaged, such as by a full disk."""

    runs: tuple[History, ...]
    damaged: int = 0


def read_events(path: Path) -> Events:
    """Read a file of events.

    Raises:
        DataError: it cannot be read, its first line is no event, or a thousand others are not.
    """
    try:
        content = read_bytes(path, _LARGEST_FILE)
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror or error}; give a file that a monitor wrote (--events)"
        ) from error
    runs: list[_Run] = []
    damaged = 0
    for number, line in enumerate(content.split(b"\n")):
        event = _event(line) if line else None
        if number == 0 and not isinstance(event, Started):
            raise DataError(
                f"{path} does not begin with a monitor's event; give a file that a monitor wrote (--events)"
            )
        if isinstance(event, Started):
            runs.append(_Run(event))
        elif event is not None:
            runs[-1].add(event)
        damaged += event is None and bool(line)
        if damaged > _MOST_DAMAGED:
            raise DataError(f"{path} has more than {_MOST_DAMAGED} damaged lines; give a file that a monitor wrote")
    return Events(tuple(run.history for run in runs), damaged)


@dataclass(eq=False)
class _Run:
    started: Started
    changes: list[Changed] = field(default_factory=list)
    figures: list[Figures] = field(default_factory=list)
    drifting: dict[str, str] = field(default_factory=dict)
    ended: bool = False

    def add(self, event: Event) -> None:
        if isinstance(event, Changed):
            self.changes.append(event)
            self.drifting.pop(event.signal, None)
            if event.event == "drift":
                self.drifting[event.signal] = event.time
        elif isinstance(event, Figures):
            self.figures.append(event)
            # Events may have been lost.
            self.drifting = dict(event.drifting)
        self.ended = isinstance(event, Ended)

    @property
    def history(self) -> History:
        return History(self.started, tuple(self.changes), tuple(self.figures), self.drifting, self.ended)


def _event(line: bytes) -> Optional[Event]:
    """The event of a line; None if it is damaged."""
    if len(line) > LONGEST_LINE:
        return None
    try:
        event = _schema().validate_json(line)
        # A day that the calendar does not have.
        datetime.fromisoformat(event.time)
    except ValueError:
        return None
    return None if isinstance(event, Figures) and event.agreeing > event.compared else event


@cache
def _schema() -> TypeAdapter[Event]:
    from pydantic import ConfigDict, Discriminator, TypeAdapter

    return TypeAdapter(
        Annotated[Event, Discriminator("event")],
        config=ConfigDict(extra="forbid", strict=True, allow_inf_nan=False),
    )
