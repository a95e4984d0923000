"""The teacher of a distillation: another network whose scores are learned."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.ir.graph import Graph


@dataclass(frozen=True, eq=False)
class Teacher:
    """A network whose scores another one learns.

    The student's loss is the mean square of the difference of scores before any softmax: Ba and Caruana 2014, "Do Deep
    Nets Really Need to be Deep?", section 2.1.

    Attributes:
        graph: its output are class scores before any softmax.
    """

    graph: Graph
    _sessions: list[MxnetSession] = field(default_factory=list)

    def scores(self, data: np.ndarray) -> np.ndarray:
        """Its scores before any softmax, float32 of shape (samples, classes), for data of shape (samples, ...)."""
        if not self._sessions:
            self._sessions.append(MxnetSession(self.graph))
        return self._sessions[0].run({self.graph.inputs[0]: data})[0].reshape(len(data), -1)

    def classes(self, data: np.ndarray) -> np.ndarray:
        """The class that it sees in each sample: int64 of shape (samples,)."""
        found: np.ndarray = self.scores(data).argmax(axis=1)
        return found
