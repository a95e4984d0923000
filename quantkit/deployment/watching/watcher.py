"""The watcher of a deployment: which samples are looked at, what they tell, and where that is written."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Optional

import numpy as np

from quantkit.deployment.watching.drift_watch import Change, DriftWatch, Look
from quantkit.deployment.watching.events import Changed, Ended, Event, EventLog, Figures, line_of, now, rounded
from quantkit.deployment.watching.shadow import Shadow, ShadowFigures
from quantkit.drift.signals import SignalMaker
from quantkit.lowering.input_quantizer import InputQuantizer

_LOG = logging.getLogger(__name__)

# Seconds between two events with figures.
_FIGURES_EVERY = 60.0


@dataclass(frozen=True)
class Watched:
    """What watching a deployment has told until now.

    Attributes:
        seen: the samples that were answered.
        watched: those whose signals were looked at.
        looks: the last look at each signal.
        drifting: the signals that drift.
        shadow: what was run in FP32.
    """

    seen: int = 0
    watched: int = 0
    looks: Mapping[str, Look] = field(default_factory=dict)
    drifting: frozenset[str] = frozenset()
    shadow: ShadowFigures = field(default_factory=ShadowFigures)


@dataclass(frozen=True, eq=False)
class Begun:
    """A batch that is being computed: the signals of its input, and the batch itself where FP32 may need it."""

    signals: Optional[Mapping[str, np.ndarray]]
    batch: Optional[np.ndarray]


class Watcher:
    """Watches the batches of one deployment; any thread may call it."""

    def __init__(
        self, maker: SignalMaker, drift: DriftWatch, share: float, shadow: Optional[Shadow], log: Optional[EventLog]
    ) -> None:
        """Begin with no sample; see ``Monitor`` for ``share``."""
        self._maker, self._drift, self._shadow, self._events = maker, drift, shadow, log
        self._pause = 1 / share - 1
        self._cost = self._next = 0.0
        self._seen = self._watched = 0
        self._lock, self._written = Lock(), time.monotonic()
        self._closed = False

    @property
    def reads_floats(self) -> bool:
        """Whether batches must be float32, since FP32 may be run on them."""
        return self._shadow is not None

    def watched(self) -> Watched:
        """What was told until now."""
        with self._lock:
            return self._now()

    def begin(self, batch: np.ndarray, quantizer: Optional[InputQuantizer]) -> Begun:
        """Take note of a batch before it is computed; integers are those of the quantizer."""
        kept = None if self._shadow is None else batch
        begun = time.monotonic()
        with self._lock:
            if self._pause and begun < self._next:
                return Begun(None, kept)
            # As long as the last one took, until it is known how long this one does.
            self._next = begun + self._cost * self._pause
        integers = quantizer is not None and batch.dtype == quantizer.dtype
        signals = self._maker.of_input(batch, 1 / quantizer.factor if quantizer is not None and integers else None)
        with self._lock:
            self._cost = time.monotonic() - begun
        return Begun(signals, kept)

    def end(self, begun: Begun, outputs: list[np.ndarray], deadline: Optional[float]) -> list[np.ndarray]:
        """Take note of a batch's outputs; FP32's take their place where INT8 was not sure.

        Raises:
            QuantkitError: FP32 cannot be run, or not in time.
        """
        if begun.signals is not None:
            self._look(begun.signals, outputs)
        if self._shadow is not None and begun.batch is not None:
            compared, unsure = self._shadow.rows(outputs)
            outputs = self._shadow.answered(begun.batch, outputs, compared, unsure, deadline)
        with self._lock:
            self._seen += len(outputs[0])
            if self._events is not None and time.monotonic() - self._written > _FIGURES_EVERY:
                self._write_figures()
        return outputs

    def close(self) -> None:
        """Write the last events."""
        with self._lock:
            if self._events is not None and not self._closed:
                self._write_figures()
                self._write(Ended(now()))
                self._events.close()
            self._closed = True

    def _look(self, inputs: Mapping[str, np.ndarray], outputs: list[np.ndarray]) -> None:
        begun = time.monotonic()
        signals = {**inputs, **self._maker.of_outputs(outputs)}
        with self._lock:
            self._watched += len(outputs[0])
            for change in self._drift.add(signals):
                self._tell(change)
            self._cost += time.monotonic() - begun
            self._next = time.monotonic() + self._cost * self._pause

    def _tell(self, change: Change) -> None:
        event = Changed(
            now(),
            "drift" if change.begins else "usual",
            change.signal,
            change.look.samples,
            rounded(change.look.mean),
            rounded(change.look.distance),
        )
        _LOG.warning("%s", line_of(event))
        self._write(event)

    def _write_figures(self) -> None:
        self._written, state = time.monotonic(), self._now()
        signals = {name: (rounded(look.mean), rounded(look.distance)) for name, look in state.looks.items()}
        shadow = state.shadow
        self._write(
            Figures(
                now(),
                state.seen,
                state.watched,
                signals,
                tuple(sorted(state.drifting)),
                shadow.samples,
                shadow.agreeing,
                shadow.answered,
            )
        )

    def _write(self, event: Event) -> None:
        if self._events is not None and not self._closed:
            self._events.write(event)

    def _now(self) -> Watched:
        shadow = ShadowFigures() if self._shadow is None else self._shadow.figures
        return Watched(self._seen, self._watched, self._drift.looks, self._drift.drifting, shadow)
