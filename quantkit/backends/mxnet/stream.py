"""Running a network over a stream of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.errors import EngineError
from quantkit.ir.graph import Graph


def outputs_of(graph: Graph, batches: Iterable[np.ndarray], batch_size: int) -> Iterator[list[np.ndarray]]:
    """The network's outputs for each batch, one batch at a time; the network is bound once.

    Args:
        graph: a network with one input, whose outputs keep the batch as their first axis.
        batches: float32 arrays of at most ``batch_size`` samples.
        batch_size: the batch size that the network is bound to.
    """
    (name,) = graph.inputs
    executor = None
    for batch in batches:
        if executor is None:
            executor = MxnetSession(graph, {name: (batch_size, *batch.shape[1:])})
        if len(batch) > batch_size:
            raise EngineError(f"a batch of {len(batch)} samples came where at most {batch_size} were agreed")
        yield executor.run({name: batch})
