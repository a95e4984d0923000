"""A network that runs batches of any size."""

from __future__ import annotations

import numpy as np

from quantkit.engine.execute import Executor, Shape
from quantkit.engine.stream import filled
from quantkit.graph.graph import Graph


class AnyBatch:
    """A network with one input, bound to batch sizes that are powers of two as they are needed.

    Smaller batches are filled up with copies of their last sample. One thread at a time may use it.

    Raises:
        EngineError: the engine does not accept the network.
    """

    def __init__(self, graph: Graph, shape: Shape) -> None:
        """Bind the network for one sample, of ``shape`` without the batch axis."""
        (self._name,) = graph.inputs
        self._executors = {1: Executor(graph, {self._name: (1, *shape)})}

    def run(self, batch: np.ndarray) -> list[np.ndarray]:
        """Compute the network's outputs for a batch (float32)."""
        size = 1 << (len(batch) - 1).bit_length()
        whole = filled(batch, size)
        if size not in self._executors:
            self._executors[size] = self._executors[1].resized({self._name: whole.shape})
        return [output[: len(batch)] for output in self._executors[size].run({self._name: whole})]
