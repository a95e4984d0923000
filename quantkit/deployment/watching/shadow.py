"""Running some samples in FP32, too: to know how far INT8 agrees with it, and to answer close calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from threading import Lock
from typing import Literal, Optional

import numpy as np

from quantkit.drift.signals import log_probabilities, margins

Run = Callable[[np.ndarray, Optional[float]], list[np.ndarray]]
"""The outputs of the network in FP32 for a batch; the deadline is by ``time.monotonic``, None for none."""

_NORMAL_975 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class ShadowFigures:
    """What was run in FP32.

    Attributes:
        samples: the samples whose answers were compared.
        agreeing: those with the same best class.
        answered: the samples that FP32 has answered, since INT8 was not sure.
    """

    samples: int = 0
    agreeing: int = 0
    answered: int = 0

    @property
    def agreement(self) -> Optional[tuple[float, float, float]]:
        """The share of the compared samples with the same best class, and its 95 % interval; None without any.

        The interval is that of Wilson (Journal of the American Statistical Association 22, 1927).
        """
        if not self.samples:
            return None
        share, square = self.agreeing / self.samples, _NORMAL_975**2
        middle = share + square / (2 * self.samples)
        half = _NORMAL_975 * sqrt(share * (1 - share) / self.samples + square / (4 * self.samples**2))
        scale = 1 + square / self.samples
        return share, max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


class Shadow:
    """The network in FP32 beside that in INT8; any thread may use it."""

    def __init__(
        self, run: Run, every: int, below: float, final: Optional[Literal["softmax", "sigmoid"]] = None
    ) -> None:
        """Take over the network; see ``Monitor`` for ``every`` and ``below``, ``SignalMaker`` for ``final``."""
        self._run, self._every, self._below, self._final = run, every, below, final
        self._seen, self._figures, self._lock = 0, ShadowFigures(), Lock()

    @property
    def figures(self) -> ShadowFigures:
        """What was run until now."""
        return self._figures

    def rows(self, outputs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Which samples of a batch to compare, and which to answer in FP32, as masks of shape (samples,)."""
        samples = len(outputs[0])
        with self._lock:
            numbers = np.arange(self._seen, self._seen + samples)
            self._seen += samples
        compared = numbers % self._every == 0 if self._every else np.zeros(samples, bool)
        return compared, self._unsure(outputs[0]) if self._below else np.zeros(samples, bool)

    def answered(
        self,
        batch: np.ndarray,
        outputs: list[np.ndarray],
        compared: np.ndarray,
        unsure: np.ndarray,
        deadline: Optional[float],
    ) -> list[np.ndarray]:
        """The outputs for a batch, with those of FP32 for the samples of ``unsure``.

        Raises:
            DeadlineExceeded: the deadline has passed.
            QuantkitError: FP32 cannot be run.
        """
        chosen = np.flatnonzero(compared | unsure)
        if not len(chosen):
            return outputs
        exact = self._run(batch[chosen], deadline)
        best, same = (_best(rows) for rows in (exact[0], outputs[0][chosen]))
        agreeing = (best == same) & compared[chosen]
        with self._lock:
            now = self._figures
            self._figures = ShadowFigures(
                now.samples + int(compared.sum()), now.agreeing + int(agreeing.sum()), now.answered + int(unsure.sum())
            )
        replaced = [output.copy() for output in outputs]
        for own, other in zip(replaced, exact):
            own[unsure] = other[unsure[chosen]]
        return replaced

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
