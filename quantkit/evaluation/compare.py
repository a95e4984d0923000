"""Comparing two forms of a network by their outputs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import tee

from quantkit.backends.mxnet.stream import outputs_of
from quantkit.evaluation.agreement import Agreement, Outputs, agreement
from quantkit.fusion.fused_model import FusedModel
from quantkit.ir.graph import Graph
from quantkit.models.dataset import BATCH_SIZE, CalibrationData, dataset, steps
from quantkit.progress import Progress, silent


def compare(source: FusedModel, other: Graph, samples: CalibrationData, progress: Progress = silent) -> Agreement:
    """Run the original network and another form of it over samples and compare their outputs."""
    reference = source.model.graph
    chosen = dataset(source.model, samples)

    def pairs() -> Iterator[tuple[Outputs, Outputs]]:
        stream = progress(chosen.batches(BATCH_SIZE), steps(chosen), "comparing with FP32")
        first, second = tee(batch.data for batch in stream)
        yield from zip(outputs_of(reference, first, BATCH_SIZE), outputs_of(other, second, BATCH_SIZE))

    return agreement(pairs(), list(map(str, reference.outputs)), source.class_scores.yes)
