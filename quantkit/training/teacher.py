"""The teacher of a distillation: another network's scores as targets."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.ir.graph import Graph


@dataclass(frozen=True, eq=False)
class Teacher:
    """A network whose scores another one learns.

    Hinton et al. 2015, "Distilling the Knowledge in a Neural Network", section 2, at temperature 1.

    Attributes:
        graph: its output are class scores before any softmax.
        share: of the targets that are its own, from 0 to 1; the rest are those of the labels.
    """

    graph: Graph
    share: float = 1.0
    _sessions: dict[int, MxnetSession] = field(default_factory=dict)

    @property
    def needs_labels(self) -> bool:
        """Whether a part of the targets are those of the labels."""
        return self.share < 1

    def targets(self, data: np.ndarray, of_labels: np.ndarray) -> np.ndarray:
        """The targets of a batch, float32 of shape (samples, classes).

        Args:
            data: float32 of shape (samples, ...).
            of_labels: those of the labels, of the shape of the result; of samples without labels anything.
        """
        scores = self.scores(data)
        scores -= scores.max(axis=1, keepdims=True)
        chances: np.ndarray = np.exp(scores)
        chances /= chances.sum(axis=1, keepdims=True)
        if not self.needs_labels:
            return chances
        mixed: np.ndarray = self.share * chances + np.float32(1 - self.share) * of_labels
        return mixed

    def classes(self, data: np.ndarray) -> np.ndarray:
        """The class that it sees in each sample: int64 of shape (samples,)."""
        found: np.ndarray = self.scores(data).argmax(axis=1)
        return found

    def scores(self, data: np.ndarray) -> np.ndarray:
        """Its scores before any softmax, float32 of shape (samples, classes)."""
        if not self._sessions:
            self._sessions[0] = MxnetSession(self.graph)
        return self._sessions[0].run({self.graph.inputs[0]: data})[0].reshape(len(data), -1)
