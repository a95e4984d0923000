"""Running some samples in FP32, too: to know how far INT8 agrees with it, and to answer close calls."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import NormalDist
from threading import Lock
from typing import Literal, Optional

import numpy as np

from quantkit.drift.signals import log_probabilities, margins
from quantkit.errors import QuantkitError

_LOG = logging.getLogger(__name__)

# Seconds that a sample waits for FP32 to be free, only to be compared.
_PATIENCE = 0.05

_NORMAL_975 = NormalDist().inv_cdf(0.975)

Run = Callable[[np.ndarray, Optional[float]], list[np.ndarray]]
"""The outputs of the network in FP32 for a batch; the deadline is by ``time.monotonic``, None for none."""


@dataclass(frozen=True)
class ShadowStatus:
    """What was run in FP32.

    Attributes:
        compared: the samples whose answers were compared.
        agreeing: those with the same best class.
        answered: the samples that FP32 has answered, since INT8 was not sure.
        failed: the samples that could not be compared.
    """

    compared: int = 0
    agreeing: int = 0
    answered: int = 0
    failed: int = 0

    @property
    def agreement(self) -> Optional[tuple[float, float, float]]:
        """The share of the compared samples with the same best class, and its 95 % interval; None without any.

        The interval is that of Wilson (Journal of the American Statistical Association 22, 1927).
        """
        if not self.compared:
            return None
        share, square = self.agreeing / self.compared, _NORMAL_975**2
        middle = share + square / (2 * self.compared)
        half = _NORMAL_975 * sqrt(share * (1 - share) / self.compared + square / (4 * self.compared**2))
        scale = 1 + square / self.compared
        return share, max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


@dataclass(frozen=True, eq=False)
class ShadowRows:
    """Which samples of a batch FP32 is to run, as masks of shape (samples,)."""

    compared: np.ndarray
    unsure: np.ndarray

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.compared.any() or self.unsure.any())


class Shadow:
    """The network in FP32 beside that in INT8; any thread may use it."""

    def __init__(
        self, run: Run, every: int, below: float, final: Optional[Literal["softmax", "sigmoid"]] = None
    ) -> None:
        """Take over the network; see ``Monitor`` for ``every`` and ``below``, ``SignalMaker`` for ``final``."""
        self._run, self._every, self._below, self._final = run, every, below, final
        self._failing = False
        self._status, self._lock, self._random = ShadowStatus(), Lock(), np.random.default_rng()

    @property
    def status(self) -> ShadowStatus:
        """What was run until now."""
        return self._status

    def rows(self, outputs: Sequence[np.ndarray]) -> ShadowRows:
        """Which samples of a batch to compare, a random one of so many on average, and which to answer in FP32."""
        with self._lock:
            drawn = self._random.random(len(outputs[0]))
        compared, unsure = drawn * self._every < min(1, self._every), np.zeros(len(drawn), bool)
        return ShadowRows(compared, self._unsure(outputs[0]) if self._below else unsure)

    def answered(
        self, batch: np.ndarray, outputs: list[np.ndarray], rows: ShadowRows, deadline: Optional[float]
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """The outputs for a batch, with those of FP32 for the samples of which INT8 is not sure.

        Returns:
            The outputs, and for each compared sample whether both have the same best class.

        Raises:
            DeadlineExceeded: the deadline has passed before these were answered.
            QuantkitError: FP32 cannot answer them.
        """
        compared, unsure = rows.compared, rows.unsure
        chosen = np.flatnonzero(compared | unsure)
        if not unsure.any():
            soon = time.monotonic() + _PATIENCE
            deadline = soon if deadline is None else min(soon, deadline)
        try:
            exact = self._run(batch[chosen], deadline)
        except QuantkitError as error:
            self._count(failed=int(compared.sum()))
            if unsure.any():
                raise
            if not self._failing:
                _LOG.error("samples cannot be compared with FP32: %s", error)
            self._failing = True
            return outputs, np.empty(0, bool)
        self._failing = False
        agreeing = (_best(exact[0]) == _best(outputs[0][chosen]))[compared[chosen]]
        self._count(len(agreeing), int(agreeing.sum()), int(unsure.sum()))
        if not unsure.any():
            return outputs, agreeing
        replaced = [output.copy() for output in outputs]
        for own, other in zip(replaced, exact):
            own[unsure] = other[unsure[chosen]]
        return replaced, agreeing

    def _count(self, compared: int = 0, agreeing: int = 0, answered: int = 0, failed: int = 0) -> None:
        with self._lock:
            now = self._status
            self._status = replace(
                now,
                compared=now.compared + compared,
                agreeing=now.agreeing + agreeing,
                answered=now.answered + answered,
                failed=now.failed + failed,
            )

    def _unsure(self, scores: np.ndarray) -> np.ndarray:
        """Whose two best classes have probabilities that are closer than allowed."""
        rows = scores.reshape(len(scores), -1)
        if not np.isfinite(rows).all():
            return np.zeros(len(rows), bool)
        if self._final is None:
            rows = np.exp(log_probabilities(rows.astype(np.float64), False))
        unsure: np.ndarray = margins(rows) < self._below
        return unsure


def _best(scores: np.ndarray) -> np.ndarray:
    best: np.ndarray = scores.reshape(len(scores), -1).argmax(axis=1)
    return best
