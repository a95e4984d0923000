"""Running a network over a stream of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Optional

import numpy as np

from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.errors import EngineError
from quantkit.ir.graph import Graph


class BoundNetwork:
    """A network that is bound when its first batch comes, and stays so for further streams of batches.

    A copy of it, as in another process, is bound anew.
    """

    def __init__(self, graph: Graph, batch_size: int) -> None:
        """Nothing is bound yet.

        Args:
            graph: a network with one input, whose outputs keep the batch as their first axis.
            batch_size: the batch size that the network is bound to.
        """
        (self._input,) = graph.inputs
        self._graph, self._batch_size = graph, batch_size
        self._session: Optional[MxnetSession] = None

    def __reduce__(self) -> tuple[type[BoundNetwork], tuple[Graph, int]]:
        return BoundNetwork, (self._graph, self._batch_size)

    def outputs(self, batches: Iterable[np.ndarray]) -> Iterator[list[np.ndarray]]:
        """The network's outputs for each batch, one batch at a time.

        Args:
            batches: float32 arrays of at most ``batch_size`` samples.

        Raises:
            EngineError: a batch has more samples, or the engine cannot run the network.
        """
        for batch in batches:
            if self._session is None:
                self._session = MxnetSession(self._graph, {self._input: (self._batch_size, *batch.shape[1:])})
            if len(batch) > self._batch_size:
                raise EngineError(f"a batch of {len(batch)} samples came where at most {self._batch_size} were agreed")
            yield self._session.run({self._input: batch})


def outputs_of(graph: Graph, batches: Iterable[np.ndarray], batch_size: int) -> Iterator[list[np.ndarray]]:
    """The network's outputs for each batch, one batch at a time; see ``BoundNetwork``."""
    return BoundNetwork(graph, batch_size).outputs(batches)
