"""The watcher of a deployment: which samples are watched, what that shows, and where it is written."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal, Optional

import numpy as np

from quantkit.deployment.watching.drift_watch import Change, DriftWatch, SignalStatus
from quantkit.deployment.watching.event_log import EventLog
from quantkit.deployment.watching.events import Changed, Ended, Event, Figures, now, rounded
from quantkit.deployment.watching.shadow import Shadow, ShadowRows, ShadowStatus
from quantkit.drift.signals import AGREEMENT, SignalMaker
from quantkit.lowering.input_quantizer import InputQuantizer

_LOG = logging.getLogger(__name__)

# Seconds between two events with figures.
_FIGURES_EVERY = 60.0

_KINDS: Mapping[bool, Literal["drift", "recovered"]] = {True: "drift", False: "recovered"}

# What looking at a sample costs in all, over the processor time that it takes itself: what runs next finds cold caches
# and sleeping threads. Measured with MXNet on two cores, by the throughput that is lost.
_COST = 3.0

# Seconds without a watched sample, at most, however long the last one took.
_LONGEST_PAUSE = 60.0


@dataclass(frozen=True)
class MonitorStatus:
    """What monitoring a deployment has shown until now.

    Attributes:
        seen: the samples that were answered.
        watched: those whose signals were computed.
        signals: the signals that were tested.
        drifting: the signals that drift, each with the time since when, in UTC, as ISO 8601 has it.
        shadow: what was run in FP32.
    """

    seen: int = 0
    watched: int = 0
    signals: Mapping[str, SignalStatus] = field(default_factory=dict)
    drifting: Mapping[str, str] = field(default_factory=dict)
    shadow: ShadowStatus = field(default_factory=ShadowStatus)


@dataclass(frozen=True, eq=False)
class PendingBatch:
    """A batch that is being computed.

    Attributes:
        watched: the number of its sample that is watched; None: none is.
        signals: those of this sample's input.
        batch: what the network reads, where FP32 may need it.
    """

    watched: Optional[int]
    signals: Mapping[str, np.ndarray]
    batch: Optional[np.ndarray]


_UNWATCHED = PendingBatch(None, {}, None)


class Watcher:
    """Watches the batches of one deployment; any thread may call it.

    Of a batch one sample is watched, drawn at random, since those that come together may be alike, and tests of drift
    take samples for independent.
    """

    def __init__(
        self,
        name: str,
        maker: SignalMaker,
        drift: DriftWatch,
        share: float,
        shadow: Optional[Shadow],
        log: Optional[EventLog],
    ) -> None:
        """Begin with no sample; ``name`` is the network's, for messages, and see ``Monitor`` for ``share``."""
        self._name, self._maker, self._drift, self._shadow, self._events = name, maker, drift, shadow, log
        self._pause = _COST / share - 1 if share < 1 else 0.0
        self._cost = self._next = 0.0
        self._seen = self._watched = 0
        self._since: dict[str, str] = {}
        self._random = np.random.default_rng()
        self._lock, self._written = Lock(), time.monotonic()
        self._process, self._closed = os.getpid(), False

    @property
    def reads_floats(self) -> bool:
        """Whether batches must be float32, since FP32 may be run on them."""
        return self._shadow is not None

    def status(self) -> MonitorStatus:
        """What was shown until now."""
        with self._lock:
            return self._status()

    def begin(self, batch: np.ndarray, quantizer: Optional[InputQuantizer]) -> PendingBatch:
        """Take note of a batch before it is computed; integers are those of the quantizer."""
        kept = None if self._shadow is None else batch
        # Most batches end here, so this costs next to nothing.
        if self._pause and time.monotonic() < self._next:
            return _UNWATCHED if kept is None else PendingBatch(None, {}, kept)
        with self._lock:
            if self._closed or not len(batch) or (self._pause and time.monotonic() < self._next):
                return PendingBatch(None, {}, kept)
            # As long as the last one took, until it is known how long this one does.
            self._rest()
            watched = int(self._random.integers(len(batch)))
        begun = time.thread_time()
        integers = quantizer is not None and batch.dtype == quantizer.dtype
        scale = 1 / quantizer.factor if quantizer is not None and integers else None
        signals = self._maker.of_input(batch[watched : watched + 1], scale)
        with self._lock:
            self._cost = time.thread_time() - begun
        return PendingBatch(watched, signals, kept)

    def end(self, pending: PendingBatch, outputs: list[np.ndarray]) -> Optional[ShadowRows]:
        """Take note of a batch's outputs; returns the samples that FP32 is to run for ``answered``, if any."""
        events = [] if pending.watched is None else self._looked_at(pending, pending.watched, outputs)
        with self._lock:
            self._seen += 0 if self._closed else len(outputs[0])
            if time.monotonic() - self._written > _FIGURES_EVERY:
                events.append(self._figures())
        for event in events:
            self._tell(event)
        return (self._shadow.rows(outputs) or None) if self._shadow is not None else None

    def _looked_at(self, pending: PendingBatch, watched: int, outputs: list[np.ndarray]) -> list[Event]:
        """Add the signals of a watched sample; returns what changes by that."""
        begun, rows = time.thread_time(), slice(watched, watched + 1)
        signals = {**pending.signals, **self._maker.of_outputs([output[rows] for output in outputs])}
        with self._lock:
            self._watched += 1
            changed: list[Event] = [self._changed(each) for each in self._drift.add(signals)]
            self._cost += time.thread_time() - begun
            self._rest()
            return changed

    def answered(
        self, pending: PendingBatch, outputs: list[np.ndarray], rows: Optional[ShadowRows], deadline: Optional[float]
    ) -> list[np.ndarray]:
        """The outputs for a batch, with those of FP32 in place of those that INT8 was not sure of.

        Raises:
            QuantkitError: FP32 cannot answer these, or not in time.
        """
        if self._shadow is None or pending.batch is None or rows is None:
            return outputs
        found, agreeing = self._shadow.answered(pending.batch, outputs, rows, deadline)
        with self._lock:
            events = [self._changed(each) for each in self._drift.add({AGREEMENT: agreeing.astype(np.float64)})]
        for event in events:
            self._tell(event)
        return found

    def close(self) -> None:
        """Write the last events; in a fork of its process nothing is done."""
        if self._process != os.getpid():
            return
        with self._lock:
            if self._closed:
                return
            self._closed, figures = True, self._figures()
        if self._events is not None:
            self._events.write(figures)
            self._events.write(Ended(now()))
            self._events.close()

    def _rest(self) -> None:
        self._next = time.monotonic() + min(_LONGEST_PAUSE, self._cost * self._pause)

    def _changed(self, change: Change) -> Changed:
        status, kind = change.status, _KINDS[change.begins]
        figures = status.samples, rounded(status.mean), rounded(status.distance)
        event = Changed(now(), kind, change.signal, *figures)
        if change.begins:
            self._since[change.signal] = event.time
        return event

    def _tell(self, event: Event) -> None:
        if isinstance(event, Changed):
            _LOG.warning("%s: %s", self._name, event)
        if self._events is not None and not self._closed:
            self._events.write(event)

    def _figures(self) -> Figures:
        self._written, status = time.monotonic(), self._status()
        signals = {name: (rounded(each.mean), rounded(each.distance)) for name, each in status.signals.items()}
        shadow = status.shadow
        return Figures(
            now(),
            status.seen,
            status.watched,
            signals,
            status.drifting,
            shadow.compared,
            shadow.agreeing,
            shadow.answered,
            shadow.failed,
        )

    def _status(self) -> MonitorStatus:
        shadow = ShadowStatus() if self._shadow is None else self._shadow.status
        drifting = {name: self._since[name] for name in sorted(self._drift.drifting)}
        return MonitorStatus(self._seen, self._watched, self._drift.signals, drifting, shadow)
