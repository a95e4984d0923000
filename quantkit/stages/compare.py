"""From two forms of a network to how close their outputs are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import tee
from typing import Any

import numpy as np

from quantkit.engine.stream import outputs_of
from quantkit.evaluation.agreement import Agreement, agreement
from quantkit.graph.graph import Graph
from quantkit.models.model import Model
from quantkit.recovery.reconstruction import Progress
from quantkit.stages.samples import BATCH_SIZE, dataset, silent, steps


def compare(reference: Graph, other: Graph, model: Model, samples: Any, progress: Progress = silent) -> Agreement:
    """Run two forms of a model's network over samples, batch by batch, and compare their first outputs."""
    chosen = dataset(model, samples)

    def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        stream = progress(chosen.batches(BATCH_SIZE), steps(chosen), "comparing with FP32")
        first, second = tee(batch.data for batch in stream)
        for a, b in zip(outputs_of(reference, first, BATCH_SIZE), outputs_of(other, second, BATCH_SIZE)):
            yield a[0], b[0]

    return agreement(pairs())
